"""The arguments that name a document, and the lookup of that document, for all document tools."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from pydantic import Field

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.tools.arguments import Id
from mcp_tools_proxy.tools.local_tool import Arguments
from mcp_tools_proxy.wire.identifiers import ContentVersion


class DocumentArguments(Arguments):
    """Base of the arguments that name a document."""

    doc_id: Id


class VersionArguments(DocumentArguments):
    """Base of the arguments that name a document, and may name a version of it."""

    version: Annotated[
        ContentVersion | None,
        Field(description="To read an older version: the version in a source."),
    ] = None


ArgumentsT = TypeVar("ArgumentsT", bound=DocumentArguments)
VersionArgumentsT = TypeVar("VersionArgumentsT", bound=VersionArguments)

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


def version_finder(
    repository: DocumentRepository, wanted: Callable[[VersionArgumentsT], Wanted]
) -> FindDocument[VersionArgumentsT]:
    """Build the same function for arguments that may name a version. Raises VersionNotKept, too."""
    find_present = document_finder(repository, wanted)

    def find(arguments: VersionArgumentsT, call: Call) -> Awaitable[CachedDocument]:
        if arguments.version is None:
            return find_present(arguments, call)
        return repository.find_version(
            call.caller, arguments.doc_id, arguments.version, wanted(arguments)
        )

    return find
