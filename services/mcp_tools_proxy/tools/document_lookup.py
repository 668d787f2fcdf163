"""The argument that names a document, and the lookup of that document, for all document tools."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.tools.arguments import DocId
from mcp_tools_proxy.tools.local_tool import Arguments


class DocumentArguments(Arguments):
    """Base of the arguments that name a document."""

    doc_id: DocId


ArgumentsT = TypeVar("ArgumentsT", bound=DocumentArguments)

FindDocument = Callable[[ArgumentsT, Call], Awaitable[CachedDocument]]


def document_finder(
    repository: DocumentRepository, wanted: Callable[[ArgumentsT], Wanted]
) -> FindDocument[ArgumentsT]:
    """Build the function that returns the document of a call, with the parts that it needs.

    The call is checked with it, and made with the document that it returned. The function raises
    AccessDenied or DocumentNotFound if there is none that the caller may read, and
    DocumentsUnavailable.
    """

    def find(arguments: ArgumentsT, call: Call) -> Awaitable[CachedDocument]:
        return repository.find(call.caller, arguments.doc_id, wanted(arguments))

    return find
