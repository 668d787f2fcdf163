"""Makes the vectors of documents: at once for an import, or one after the other in the background.

In the background only documents are taken that were searched, or uploaded, and lack vectors.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import structlog

from mcp_tools_proxy.aiokits.backoff import Backoff
from mcp_tools_proxy.documents.document_store import Key, Reading, Wanted
from mcp_tools_proxy.documents.embeddings.document_vectors import stored_bytes
from mcp_tools_proxy.documents.embeddings.embedding_answers import Vectors
from mcp_tools_proxy.documents.embeddings.embeddings_client import (
    EmbeddingsClient,
    EmbeddingsFailed,
)
from mcp_tools_proxy.documents.embeddings.vector_store import StoredVectors, VectorStore
from mcp_tools_proxy.documents.layout import each_chunk
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.telemetry.metrics import Metrics

MAX_CHUNKS = 5_000
"""Most chunks of a document that have a vector: the first ones, of about 5 MB of text."""

MAX_WAITING = 1_000
"""Most documents that wait for their vectors; another one waits from its next search on."""

MAX_REFUSED = 10_000
"""Most documents of which it is known that there will be no vectors."""

PAUSES = Backoff(first_s=1.0, longest_s=300.0)
"""Pauses in the background while the service, or the store, fails."""

ReadDocument = Callable[[Key, Wanted], Awaitable[Reading | None]]
"""Reads a document as a store does."""

log = structlog.get_logger()


async def make_vectors(
    client: EmbeddingsClient, document: Document, version: str
) -> StoredVectors | None:
    """Return the vectors of a document, of its first chunks; None for one without text.

    Raises EmbeddingsFailed.
    """
    texts = await asyncio.to_thread(_texts, document)
    placed = [(place, text) for place, text in enumerate(texts) if text.strip()]
    rows: Vectors | None = None
    for start in range(0, len(placed), client.batch):
        batch = placed[start : start + client.batch]
        vectors = await client.embed_texts([text for _, text in batch])
        if rows is None:
            rows = np.zeros((len(texts), vectors.shape[1]), np.float16)
        if vectors.shape[1] != rows.shape[1]:
            raise EmbeddingsFailed("sent vectors of several lengths")
        rows[[place for place, _ in batch]] = vectors
    if rows is None:
        return None
    return StoredVectors(
        version=version, model=client.model, dimension=rows.shape[1], data=stored_bytes(rows)
    )


class VectorMaker:
    """Makes the vectors of documents that were asked for, one document at a time.

    ``sleep`` pauses for seconds.
    """

    def __init__(
        self,
        client: EmbeddingsClient,
        read_document: ReadDocument,
        vectors: VectorStore,
        *,
        metrics: Metrics,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._read_document = read_document
        self._vectors = vectors
        self._sleep = sleep
        self._waiting: dict[Key, bool] = {}
        """The documents whose turn comes, and whether vectors that are there are to be replaced."""
        self._refused: dict[tuple[Key, str], None] = {}
        """Versions of documents without text, that the service refuses, or that cannot be kept."""
        self._is_waiting = asyncio.Event()
        self._metrics = metrics
        metrics.documents_without_vectors.set_function(lambda: len(self._waiting))

    def __repr__(self) -> str:
        return f"<VectorMaker: {len(self._waiting)} documents wait>"

    def is_expected(self, key: Key, version: str) -> bool:
        """Return whether a document has no vectors yet, or will never have any."""
        return key in self._waiting or (key, version) in self._refused

    def request(self, key: Key, *, anew: bool = False) -> None:
        """Request vectors, for which a document waits its turn; ``anew`` replaces those there."""
        if key in self._waiting or len(self._waiting) >= MAX_WAITING:
            return
        self._waiting[key] = anew
        self._is_waiting.set()

    def refuse(self, key: Key, version: str) -> None:
        """Refuse vectors of this version of a document until the next start."""
        if len(self._refused) >= MAX_REFUSED:
            self._refused.pop(next(iter(self._refused)))
        self._refused[key, version] = None

    async def run(self) -> None:
        """Work off what was requested until cancelled, and pause while that fails."""
        failures = 0
        while True:
            await self._is_waiting.wait()
            key, anew = next(iter(self._waiting.items()))
            try:
                await self._make(key, anew=anew)
                failures = 0
            except (EmbeddingsFailed, DocumentsUnavailable):
                await self._sleep(PAUSES.pause_s(failures))
                failures += 1
                self._waiting[key] = self._waiting.pop(key)  # behind the others
                continue
            del self._waiting[key]
            if not self._waiting:
                self._is_waiting.clear()

    async def _make(self, key: Key, *, anew: bool) -> None:
        """Request and keep the vectors of a document, unless another replica has kept them.

        Raises EmbeddingsFailed and DocumentsUnavailable for what may succeed later.
        """
        reading = await self._read_document(key, Wanted(whole=True))
        if reading is None or reading.document is None:
            return
        version = reading.head.version
        if not anew and await self._vectors.read(key, version, self._client.model) is not None:
            return
        try:
            made = await make_vectors(self._client, reading.document, version)
        except EmbeddingsFailed as error:
            if not error.is_refusal:
                raise
            self.refuse(key, version)
            log.warning("embeddings.refused", tenant_id=key[0], doc_id=key[1], reason=error.reason)
            return
        if made is None:
            self.refuse(key, version)
            return
        if await self._keep(key, made):
            self._metrics.documents_embedded.inc()
        else:
            self.refuse(key, version)
            log.warning("embeddings.not_kept", tenant_id=key[0], doc_id=key[1])

    async def _keep(self, key: Key, made: StoredVectors) -> bool:
        """Write vectors; return whether they are there then.

        Where nothing can be written each search would have them made, and paid for, again.
        """
        try:
            await self._vectors.write(key, made)
            return await self._vectors.read(key, made.version, made.model) is not None
        except DocumentsUnavailable:
            return False


def _texts(document: Document) -> Sequence[str]:
    """Return the texts of the first chunks."""
    texts: list[str] = []
    for chunk in each_chunk(document):
        texts.append(chunk.text)
        if len(texts) == MAX_CHUNKS:
            break
    return texts
