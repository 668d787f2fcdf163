"""In-memory vectors of one document and their comparison with a query."""

from collections.abc import Mapping

import numpy as np

from mcp_tools_proxy.documents.document_store import StoredVectors
from mcp_tools_proxy.documents.embeddings.embeddings_client import Vectors

QUICK_NUMBERS = 2_000_000
"""Numbers whose cosines take half a millisecond: 2,000 chunks of 1,000."""

_STORED = np.dtype("<f2")


class DocumentVectors:
    """Vectors of a document's first chunks, in reading order, each of length 1 or 0."""

    def __init__(self, rows: Vectors) -> None:
        self._rows = rows

    @classmethod
    def load(cls, stored: StoredVectors) -> "DocumentVectors":
        """Load vectors from a store. Raises ValueError for malformed data."""
        rows = np.frombuffer(stored.data, _STORED).reshape(-1, stored.dimension)
        return cls(rows.astype(np.float32))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return int(self._rows.shape[1])

    @property
    def size_bytes(self) -> int:
        """Memory of the vectors."""
        return self._rows.nbytes

    @property
    def is_quick(self) -> bool:
        """Whether ``similar`` is fast enough for the event loop."""
        return self._rows.size <= QUICK_NUMBERS

    def similar(self, query: Vectors, least: float, limit: int) -> Mapping[int, float]:
        """Return the chunk indexes most similar to a query, with cosines of at least ``least``."""
        cosines = np.vecdot(self._rows, query)  # "@" uses threads: 2 ms of CPU instead of 0.2
        best = np.argsort(-cosines, kind="stable")[:limit]
        return {int(place): float(cosines[place]) for place in best if cosines[place] >= least}


def stored_bytes(rows: Vectors) -> bytes:
    """Return vectors in their stored format."""
    return rows.astype(_STORED).tobytes()
