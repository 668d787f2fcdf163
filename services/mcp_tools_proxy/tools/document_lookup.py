"""The argument that names a document, and the lookup of that document, for all document tools."""

from collections.abc import Awaitable, Callable

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.tools.arguments import DocId
from mcp_tools_proxy.tools.local_tool import Arguments


class DocumentArguments(Arguments):
    """Base of the arguments that name a document."""

    doc_id: DocId


FindDocument = Callable[[DocumentArguments, Call], Awaitable[Document]]


def document_finder(repository: DocumentRepository) -> FindDocument:
    """Build the function that returns the document of a call.

    The function raises AccessDenied or DocumentNotFound if there is none that the caller may read.
    """

    def find(arguments: DocumentArguments, call: Call) -> Awaitable[Document]:
        return repository.get(call.caller, arguments.doc_id)

    return find
