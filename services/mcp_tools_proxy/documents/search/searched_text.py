"""The text of a document that is searched: without running titles and page numbers."""

from mcp_tools_proxy.documents.repeated_lines import blanked, repeated_spans
from mcp_tools_proxy.domain.document import Chunk, Document


class SearchedText:
    """The text of a document's chunks as it is indexed, and matched for snippets.

    Spaces stand where repeated lines do, so that places are those of the text that is read. Chunks
    that came with the document are searched as they are.
    """

    def __init__(self, document: Document) -> None:
        self._repeated = repeated_spans(document.pages) if document.own_chunks is None else None

    def of(self, chunk: Chunk) -> str:
        """Return the text of a chunk, of the same length as it has."""
        if self._repeated is None:
            return chunk.text
        return blanked(chunk.text, self._repeated[chunk.page - 1], chunk.start)
