"""Documents as MCP resources: ``doc://{doc_id}``, and page ranges."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import CatalogQuery, fold
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import (
    DOCUMENT_ARGUMENT,
    Component,
    JsonObject,
    NamesNoDocument,
    ResourceSpec,
    ResourceTemplate,
    Result,
    Tool,
)
from mcp_tools_proxy.domain.errors import InvalidArguments, ToolFailed
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.text import estimate_tokens
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS, OWN_SCHEME

DOCUMENT_URI = f"{OWN_SCHEME}://{{doc_id}}"
PAGES_URI = f"{DOCUMENT_URI}/pages/{{from}}-{{to}}"

MAX_COMPLETIONS = 100
"""MCP's limit for values in one response."""

_TEXT = "text/plain"
_URI = re.compile(rf"(?i:{OWN_SCHEME})://([^/?#]+)(?:/pages/([^/?#]+)-([^-/?#]+))?")


def document_templates(
    repository: DocumentRepository, read_pages: Tool, *, max_pages_per_call: int
) -> Sequence[ResourceTemplate]:
    """Build the two templates; the tool ``read_pages`` reads their documents."""
    whole = _spec(
        DOCUMENT_URI,
        "document",
        "A document",
        f"The text of a document, or of its first {max_pages_per_call} pages if it is longer.",
    )
    pages = _spec(
        PAGES_URI,
        "document_pages",
        "Pages of a document",
        f"The text of a range of pages, numbered from 1, at most {max_pages_per_call} at once.",
    )
    return (
        DocumentTemplate(whole, repository, read_pages, (1, max_pages_per_call)),
        DocumentTemplate(pages, repository, read_pages, None),
    )


@dataclass(frozen=True, slots=True)
class DocumentTemplate:
    """The URIs of all documents, or of all page ranges.

    ``span`` is the page range for URIs without pages; None if the URIs contain pages.
    """

    spec: ResourceSpec
    repository: DocumentRepository
    read_pages: Tool
    span: tuple[int, int] | None

    @property
    def completion(self) -> Component:
        """The component that completes document ids."""
        return DocumentCompletion(self.spec, self.repository)

    def at(self, uri: str) -> "DocumentResource | None":
        """Return the resource at ``uri``; None if the URI does not match the template.

        Percent-encoding is decoded once, since an id can be any text.
        """
        match = _URI.fullmatch(uri) if len(uri) <= MAX_URI_CHARS else None
        if match is None or (match[2] is None) is (self.span is None):
            return None
        try:
            doc_id = unquote(match[1], errors="strict")
        except UnicodeDecodeError:
            return None
        if not is_identifier(doc_id):
            return None
        first, last = self.span or (match[2], match[3])
        return DocumentResource(self, uri, doc_id, first, last)


@dataclass(frozen=True, slots=True)
class DocumentResource:
    """Pages of one document, with the rules and limits of ``read_doc_pages``."""

    template: DocumentTemplate
    uri: str
    doc_id: str
    first: int | str
    last: int | str

    @property
    def spec(self) -> ResourceSpec:
        """The description of the template."""
        return self.template.spec

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the document and pages of its URI as tool arguments."""
        if call.arguments:
            raise InvalidArguments("a resource takes a uri only; leave the other arguments out")
        pages = {"page_start": self.first, "page_end": self.last}
        return replace(call, arguments={DOCUMENT_ARGUMENT: self.doc_id, **pages})

    def parse(self, arguments: JsonObject) -> object:
        """Check the pages. Raises InvalidArguments, PageSpanTooLarge."""
        return self.template.read_pages.parse(arguments)

    async def check_document(self, parsed: object, call: Call) -> str | None:
        """Return the version of the document. Raises AccessDenied, DocumentNotFound."""
        return await self.template.read_pages.check_document(parsed, call)

    async def call(self, parsed: object, call: Call) -> Result:
        """Read the pages. Raises PagesNotFound."""
        read = await self.template.read_pages.call(parsed, call)
        document = await self.template.repository.find(call.caller, self.doc_id)
        is_cut = bool(read.value["truncated"])
        if self.template.span is not None:
            is_cut = is_cut or document.head.page_count > self.template.span[1]
        contents = [{"uri": self.uri, "mimeType": _TEXT, "text": read.value["text"]}]
        value = {"contents": contents, "tokens": read.tokens, "truncated": is_cut}
        return replace(read, value=value)

    async def subscribe(self, on_update: Callable[[], None], caller: Caller) -> Callable[[], None]:
        """Raise ToolFailed: changes of documents are not sent."""
        raise ToolFailed("changes of documents are not sent; read the document again instead")


class _Argument(BaseModel):
    name: str
    value: str


class _CompletionParams(BaseModel):
    argument: _Argument


@dataclass(frozen=True, slots=True)
class DocumentCompletion(NamesNoDocument):
    """Completes document ids that the caller can read; does not complete page numbers."""

    spec: ResourceSpec
    repository: DocumentRepository

    def parse(self, arguments: JsonObject) -> _Argument:
        """Accept ``{"argument": {"name", "value"}}``. Raises InvalidArguments."""
        try:
            return _CompletionParams.model_validate(arguments).argument
        except ValidationError:
            raise InvalidArguments(
                "argument should be an object with name and value, both strings"
            ) from None

    async def call(self, parsed: object, call: Call) -> Result:
        """Return ``completion``: the ids that start with the value, ignoring case."""
        if not isinstance(parsed, _Argument) or parsed.name != DOCUMENT_ARGUMENT:
            return Result(value={"completion": {"values": []}}, tokens=0)
        query = CatalogQuery(
            caller=call.caller, id_prefix=fold(parsed.value), limit=MAX_COMPLETIONS
        )
        page = await self.repository.list_readable(query)
        values = [entry.head.doc_id for entry in page.entries]
        completion = {"values": values, "hasMore": page.has_more}
        return Result(
            value={"completion": completion},
            tokens=estimate_tokens(sum(map(len, values))),
            reads_untrusted=any(entry.head.is_untrusted for entry in page.entries),
        )


def _spec(uri: str, name: str, title: str, description: str) -> ResourceSpec:
    return ResourceSpec(
        name=uri,
        server_id=None,
        as_mcp={
            "uriTemplate": uri,
            "name": name,
            "title": title,
            "description": description,
            "mimeType": _TEXT,
        },
        needs_tenant=True,
        argument_names=frozenset({DOCUMENT_ARGUMENT, "page_start", "page_end"}),
    )
