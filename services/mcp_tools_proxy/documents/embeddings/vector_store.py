"""Where the vectors of documents are kept: with each document, for one version and one model."""

from dataclasses import dataclass
from typing import Protocol

from mcp_tools_proxy.documents.document_store import Key

NUMBER_BYTES = 2
"""A number is a half float (IEEE 754), little-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectors:
    """The vectors of a document's first chunks, in reading order, as bytes.

    ``version`` is that of the document, ``model`` what made them; ``dimension`` numbers for each.
    """

    version: str
    model: str
    dimension: int
    data: bytes

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return len(self.data) // (self.dimension * NUMBER_BYTES)


class VectorStore(Protocol):
    """Keeps vectors; they are removed with their document, and can always be made anew.

    Implementers never block the event loop. Each method raises DocumentsUnavailable while the
    store cannot be reached.
    """

    async def read(self, key: Key, version: str, model: str) -> StoredVectors | None:
        """Read the vectors of one version by one model; None when there are none."""
        ...

    async def write(self, key: Key, vectors: StoredVectors) -> None:
        """Keep vectors in place of older ones; not if the document has another version now."""
        ...
