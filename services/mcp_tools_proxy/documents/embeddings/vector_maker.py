"""Computes the vectors of documents: immediately for an import, otherwise in the background.

The background task handles searched and uploaded documents without vectors.
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
"""Maximum chunks per document with a vector: the first ones, about 5 MB of text."""

MAX_WAITING = 1_000
"""Maximum queued documents; further ones are queued by their next search."""

MAX_REFUSED = 10_000
"""Maximum versions in ``_refused``."""

MAX_BEGUN_BYTES = 64 * 1024 * 1024
"""Vectors of unfinished documents; one document has at most 40 MB."""

PAUSES = Backoff(first_s=1.0, longest_s=300.0)
"""Pauses of the background task while the service or the store fails."""

ReadDocument = Callable[[Key, Wanted], Awaitable[Reading | None]]
"""Reads a document, like ``DocumentStore.read``."""

log = structlog.get_logger()


async def make_vectors(
    client: EmbeddingsClient, document: Document, version: str, begun: list[Vectors] | None = None
) -> StoredVectors | None:
    """Return the vectors of a document's first chunks; None for a document without text.

    ``begun`` has the batches of an earlier attempt and receives new ones, so that the next attempt
    can continue. Raises EmbeddingsFailed.
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
    """Computes requested vectors, one document at a time.

    After a failure, a document moves to the end of the queue, unless at least one batch succeeded:
    then it continues after the shortest pause. Completed batches are kept for the next attempt, up
    to MAX_BEGUN_BYTES. ``sleep`` pauses for seconds.
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
        """Queued documents, and whether to replace existing vectors."""
        self._refused: dict[tuple[Key, str], None] = {}
        """Versions without text, refused by the service, or not writable."""
        self._begun: dict[Key, tuple[str, list[Vectors]]] = {}
        """Versions and completed batches of unfinished documents."""

        self._is_waiting = asyncio.Event()
        self._metrics = metrics
        metrics.documents_without_vectors.set_function(lambda: len(self._waiting))

    def __repr__(self) -> str:
        return f"<VectorMaker: {len(self._waiting)} documents wait>"

    def is_expected(self, key: Key, version: str) -> bool:
        """Return whether a document's vectors are queued or will never exist."""
        return key in self._waiting or (key, version) in self._refused

    def request(self, key: Key, *, anew: bool = False) -> None:
        """Queue a document; ``anew`` replaces existing vectors."""
        if key in self._waiting or len(self._waiting) >= MAX_WAITING:
            return
        self._waiting[key] = anew
        self._is_waiting.set()

    def refuse(self, key: Key, version: str) -> None:
        """Do not request vectors of this version until the next start."""
        if len(self._refused) >= MAX_REFUSED:
            self._refused.pop(next(iter(self._refused)))
        self._refused[key, version] = None

    async def run(self) -> None:
        """Process the queue until cancelled, with pauses after failures."""
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
                self._waiting[key] = self._waiting.pop(key)  # to the end of the queue
                continue
            self._begun.pop(key, None)
            del self._waiting[key]
            if not self._waiting:
                self._is_waiting.clear()

    async def _make(self, key: Key, *, anew: bool) -> None:
        """Compute and store a document's vectors, unless another replica has stored them.

        Raises EmbeddingsFailed and DocumentsUnavailable if a retry can succeed.
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
        if key not in self._begun or self._begun[key][0] != version:
            self._begun[key] = (version, [])
        return self._begun[key][1]

    def _batches_of(self, key: Key) -> int:
        return len(self._begun[key][1]) if key in self._begun else 0

    def _drop_begun(self) -> None:
        sizes = {key: sum(it.nbytes for it in rows) for key, (_, rows) in self._begun.items()}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if total <= MAX_BEGUN_BYTES:
                break
            del self._begun[key]
            total -= size

    async def _keep(self, key: Key, made: StoredVectors) -> bool:
        """Write vectors; return whether they are then stored.

        Without that check, each search would have them computed and paid for again.
        """
        try:
            await self._vectors.write(key, made)
            return await self._vectors.read(key, made.version, made.model) is not None
        except DocumentsUnavailable:
            return False


def _texts(document: Document) -> Sequence[str]:
    texts: list[str] = []
    for chunk in each_chunk(document):
        texts.append(chunk.text)
        if len(texts) == MAX_CHUNKS:
            break
    return texts
