"""Makes the vectors of documents: at once for an import, or one after the other in the background.

In the background only documents are taken that were searched, or uploaded, and lack vectors.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import structlog

from mcp_tools_proxy.documents.document_store import (
    Key,
    Reading,
    StoredVectors,
    VectorStore,
    Wanted,
)
from mcp_tools_proxy.documents.embeddings.document_vectors import stored_bytes
from mcp_tools_proxy.documents.embeddings.embeddings_client import (
    EmbeddingsClient,
    EmbeddingsFailed,
    Vectors,
)
from mcp_tools_proxy.documents.layout import each_chunk
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.metrics import Metrics

MAX_CHUNKS = 5_000
"""Most chunks of a document that have a vector: the first ones, of about 5 MB of text."""

MAX_WAITING = 1_000
"""Most documents that wait for their vectors; another one waits from its next search on."""

MAX_REFUSED = 10_000
"""Most documents of which it is known that there will be no vectors."""

MAX_BEGUN_BYTES = 64 * 1024 * 1024
"""Vectors of documents that are not finished; those of one have 40 MB at most."""

PAUSES = Backoff(first_s=1.0, longest_s=300.0)
"""Pauses in the background while the service, or the store, fails."""

ReadDocument = Callable[[Key, Wanted], Awaitable[Reading | None]]
"""Reads a document as a store does."""

log = structlog.get_logger()


async def make_vectors(
    client: EmbeddingsClient, document: Document, version: str, begun: list[Vectors] | None = None
) -> StoredVectors | None:
    """Return the vectors of a document, of its first chunks; None for one without text.

    ``begun`` are the batches of an attempt before, and gets those of this one: what fails in the
    middle goes on there. Raises EmbeddingsFailed.
    """
    batches = [] if begun is None else begun
    texts = await asyncio.to_thread(_texts, document)
    places = [place for place, text in enumerate(texts) if text.strip()]
    for start in range(len(batches) * client.batch, len(places), client.batch):
        batch = places[start : start + client.batch]
        vectors = await client.embed_texts([texts[place] for place in batch])
        if batches and vectors.shape[1] != batches[0].shape[1]:
            batches.clear()
            raise EmbeddingsFailed("sent vectors of several lengths")
        batches.append(vectors.astype(np.float16))
    if not batches:
        return None
    rows: Vectors = np.zeros((len(texts), batches[0].shape[1]), np.float16)
    rows[places] = np.concatenate(batches)
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
        self._begun: dict[Key, tuple[str, list[Vectors]]] = {}
        """Versions and batches of documents in whose middle the service failed."""

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
            before = self._batches_of(key)
            try:
                await self._make(key, anew=anew)
                failures = 0
            except (EmbeddingsFailed, DocumentsUnavailable):
                self._drop_begun()
                if self._batches_of(key) > before:
                    await self._sleep(PAUSES.pause_s(0))
                    continue
                await self._sleep(PAUSES.pause_s(failures))
                failures += 1
                self._waiting[key] = self._waiting.pop(key)  # behind the others
                continue
            self._begun.pop(key, None)
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
            made = await make_vectors(
                self._client, reading.document, version, self._batches(key, version)
            )
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

    def _batches(self, key: Key, version: str) -> list[Vectors]:
        """Return the list for the batches of a document, with those made of this version."""
        if key not in self._begun or self._begun[key][0] != version:
            self._begun[key] = (version, [])
        return self._begun[key][1]

    def _batches_of(self, key: Key) -> int:
        """Return how many batches there are of a document."""
        return len(self._begun[key][1]) if key in self._begun else 0

    def _drop_begun(self) -> None:
        """Drop what is begun beyond the bound, the oldest first."""
        sizes = {key: sum(it.nbytes for it in rows) for key, (_, rows) in self._begun.items()}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if total <= MAX_BEGUN_BYTES:
                break
            del self._begun[key]
            total -= size

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
