"""Similarity of chunks and queries by meaning; if unavailable, searches use words only."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_store import Key, VectorStore
from mcp_tools_proxy.documents.embeddings.document_vectors import DocumentVectors
from mcp_tools_proxy.documents.embeddings.embeddings_client import (
    EmbeddingsClient,
    EmbeddingsFailed,
    Vectors,
)
from mcp_tools_proxy.documents.embeddings.vector_maker import MAX_CHUNKS, ReadDocument, VectorMaker
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.metrics import Metrics

PAUSES = Backoff(first_s=1.0, longest_s=60.0)


class Circuit:
    """Circuit breaker: pauses calls after a failure, then admits one caller as a test.

    The pauses grow with consecutive failures. ``clock`` returns seconds.
    """

    def __init__(
        self, *, pauses: Backoff = PAUSES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pauses = pauses
        self._clock = clock
        self._failures = 0
        self._next_call_at = 0.0
        self._is_tried = False

    def enter(self) -> bool:
        """Return whether a call is allowed; if so, the caller must call ``leave``."""
        if self._failures == 0:
            return True
        if self._is_tried or self._clock() < self._next_call_at:
            return False
        self._is_tried = True
        return True

    def leave(self, *, has_failed: bool | None) -> None:
        """Record the outcome of a call; None for a cancelled one.

        Simultaneous failures count as one.
        """
        self._is_tried = False
        if has_failed is False:
            self._failures = 0
        elif has_failed and self._clock() >= self._next_call_at:
            self._next_call_at = self._clock() + self._pauses.pause_s(self._failures)
            self._failures += 1


CANDIDATES = 24
"""Chunks ranked by meaning."""

KNOWN_QUERIES = 256
"""Cached query vectors: a model often sends the same query for several documents."""

MAX_REPLACED = 10_000
"""Documents remembered in ``_replaced``."""

STORE_WAIT_S = 0.5
"""Seconds that a search waits for stored vectors."""


class MeaningSearch:
    """Compares queries with the vectors of documents, for ``DocumentRepository``."""

    def __init__(
        self,
        client: EmbeddingsClient,
        read_document: ReadDocument,
        vectors: VectorStore,
        *,
        min_similarity: float,
        metrics: Metrics,
        circuit: Circuit | None = None,
    ) -> None:
        self.maker = VectorMaker(client, read_document, vectors, metrics=metrics)
        self._client = client
        self._vectors = vectors
        self._min_similarity = min_similarity
        self._metrics = metrics
        self._circuit = circuit or Circuit()
        self._queries: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        """Query vectors by tenant and text; a shared cache would reveal other tenants' queries by
        timing."""

        self._replaced: set[Key] = set()
        """Documents whose vectors came from another model of the same name."""

    def __repr__(self) -> str:
        return f"<MeaningSearch {self._client!r}>"

    async def similar(
        self,
        found: CachedDocument,
        chunk_count: int,
        query: str,
        grow: Callable[[CachedDocument, int], None],
    ) -> Mapping[int, float]:
        """Return the indexes of chunks similar to a query, with their cosines.

        Empty until the document and the query have vectors. ``grow`` is called with each change of
        the document's memory.
        """
        vectors = await self._vectors_of(found, chunk_count, grow)
        wanted = None if vectors is None else await self._vector_of(found.head.tenant_id, query)
        if vectors is None or wanted is None:
            self._metrics.searches_without_meaning.inc()
            return {}
        if len(wanted) != vectors.dimension:
            self._replace(found, vectors, grow)
            return {}
        arguments = (wanted, self._min_similarity, CANDIDATES)
        if vectors.is_quick:
            return vectors.similar(*arguments)
        return await asyncio.to_thread(vectors.similar, *arguments)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def _vectors_of(
        self, found: CachedDocument, chunk_count: int, grow: Callable[[CachedDocument, int], None]
    ) -> DocumentVectors | None:
        """Return a document's vectors; request them if missing."""
        key = (found.head.tenant_id, found.head.doc_id)
        if found.vectors is not None or self.maker.is_expected(key, found.head.version):
            return found.vectors
        try:
            async with asyncio.timeout(STORE_WAIT_S):
                read = await self._read(key, found.head.version, chunk_count)
        except (DocumentsUnavailable, TimeoutError):
            return None
        if read is None:
            self.maker.request(key)
        elif found.vectors is None:  # otherwise a concurrent search loaded them
            found.vectors = read
            grow(found, read.size_bytes)
        return found.vectors

    async def _read(self, key: Key, version: str, chunk_count: int) -> DocumentVectors | None:
        """Load vectors from the store; None if they do not match the chunks."""
        stored = await self._vectors.read(key, version, self._client.model)
        if stored is None:
            return None
        if stored.count != min(chunk_count, MAX_CHUNKS):  # another release cut chunks differently
            self.maker.request(key, anew=True)
            return None
        return await asyncio.to_thread(DocumentVectors.load, stored)

    async def _vector_of(self, tenant_id: str, query: str) -> Vectors | None:
        """Return the vector of a query; None if it is not available in time."""
        known = self._queries.get((tenant_id, query))
        if known is not None:
            self._queries.move_to_end((tenant_id, query))
            return known
        if not self._circuit.enter():
            return None
        has_failed = None
        try:
            vector = await self._client.embed_query(query)
            has_failed = False
        except EmbeddingsFailed as error:
            has_failed = not error.is_refusal  # a query can be too long for the service
            return None
        finally:
            self._circuit.leave(has_failed=has_failed)
        self._queries[tenant_id, query] = vector
        if len(self._queries) > KNOWN_QUERIES:
            self._queries.popitem(last=False)
        return vector

    def _replace(
        self,
        found: CachedDocument,
        vectors: DocumentVectors,
        grow: Callable[[CachedDocument, int], None],
    ) -> None:
        """Replace stored vectors that another model of the same name made, once per document.

        Otherwise a service whose vectors change length with each request would be paid forever.
        """
        if found.vectors is not vectors:
            return
        found.vectors = None
        grow(found, -vectors.size_bytes)
        self._queries.clear()
        key = (found.head.tenant_id, found.head.doc_id)
        if key in self._replaced:
            self.maker.refuse(key, found.head.version)
            return
        if len(self._replaced) >= MAX_REPLACED:
            self._replaced.clear()
        self._replaced.add(key)
        self.maker.request(key, anew=True)
