"""What a repository of documents wants of a comparison by meaning."""

from collections.abc import Callable, Mapping
from typing import Protocol

from mcp_tools_proxy.documents.document_cache import CachedDocument


class Meaning(Protocol):
    """Compares queries with the texts of a document by what they mean; raises nothing."""

    async def similar(
        self,
        found: CachedDocument,
        chunk_count: int,
        query: str,
        grow: Callable[[CachedDocument, int], None],
    ) -> Mapping[int, float]:
        """Return the places of chunks that mean what a query does, with how much they do.

        ``grow`` is called with the memory that the document takes from now on.
        """
        ...
