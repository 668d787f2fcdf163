"""list_documents: the documents that the caller can read."""

import base64
import binascii
import zlib
from itertools import islice
from typing import Annotated, NotRequired

from pydantic import AfterValidator, Field
from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import (
    CatalogEntry,
    CatalogQuery,
    fold,
    words_of,
)
from mcp_tools_proxy.documents.tools.local_tool import (
    Arguments,
    LocalTool,
    Positive,
    WantedDocuments,
    build_local_tool,
    no_document,
)
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import MetadataValue
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.text import estimate_tokens

LIST_DOCUMENTS = "list_documents"

MAX_DOCUMENTS = 50
"""Maximum documents in one answer."""

MAX_CURSOR_CHARS = 2_048
MAX_QUERY_WORDS = 16
TITLE_CHARS = 300
TAG_CHARS = 100
MAX_TAGS = 20
"""Limits for one document in an answer, so that a single one always fits."""

_CHECK_BYTES = 4


def _doc_id_of(cursor: str) -> str:
    """Return the doc_id after which the list continues. Raises ValueError if invalid."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, doc_id = data[:_CHECK_BYTES], data[_CHECK_BYTES:].decode()
    except (binascii.Error, ValueError):
        check, doc_id = b"", ""
    if not is_identifier(doc_id) or check != _check_of(doc_id):
        raise ValueError("should be the next_cursor of an answer; leave it out to start over")
    return doc_id


def _cursor_of(doc_id: str) -> str:
    data = _check_of(doc_id) + doc_id.encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _check_of(doc_id: str) -> bytes:
    return zlib.crc32(doc_id.encode()).to_bytes(_CHECK_BYTES)


class DocumentListArguments(Arguments):
    """Arguments of list_documents."""

    query: Annotated[
        str | None,
        Field(description="Only documents with these words in title, id or tags, not in texts."),
    ] = None
    tag: str | None = None
    limit: Annotated[
        Positive,
        Field(description=f"At most {MAX_DOCUMENTS}."),
    ] = 20
    cursor: Annotated[
        str | None,
        Field(
            max_length=MAX_CURSOR_CHARS,
            description="For the next page: next_cursor of the previous answer.",
        ),
        AfterValidator(lambda cursor: None if cursor is None else _doc_id_of(cursor)),
    ] = None
    filter: WantedDocuments | None = None


class ListedDocument(TypedDict):
    """One document; ``pages`` is the page count."""

    doc_id: str
    title: str
    pages: int
    tags: list[str]
    language: NotRequired[str]
    date: NotRequired[str]
    metadata: NotRequired[dict[str, object]]
    updated: str


class DocumentList(TypedDict):
    """Documents, ordered by doc_id."""

    documents: list[ListedDocument]
    count: int
    next_cursor: NotRequired[str]
    pending: NotRequired[bool]
    """True until all documents are known."""


def documents_tool(
    repository: DocumentRepository, *, max_text_bytes: int
) -> LocalTool[DocumentListArguments, None]:
    """Build list_documents (contract §2)."""

    async def list_documents(arguments: DocumentListArguments, call: Call, _none: None) -> Result:
        query = CatalogQuery(
            caller=call.caller,
            words=words_of(arguments.query or "", limit=MAX_QUERY_WORDS),
            tag=None if arguments.tag is None else fold(arguments.tag),
            after=arguments.cursor or "",
            limit=min(arguments.limit, MAX_DOCUMENTS),
            filter=arguments.filter,
        )
        page = await repository.list_readable(query)
        documents = _fit([_listed(entry) for entry in page.entries], max_text_bytes)
        result: DocumentList = {"documents": documents, "count": len(documents)}
        if page.has_more or len(documents) < len(page.entries):
            result["next_cursor"] = _cursor_of(documents[-1]["doc_id"])
        if page.is_pending:
            result["pending"] = True
        shown = page.entries[: len(documents)]
        return Result(
            value=result,
            tokens=estimate_tokens(len(to_json(result))),
            reads_untrusted=any(it.head.is_untrusted for it in shown),  # titles and tags are text
        )

    return build_local_tool(
        name=LIST_DOCUMENTS,
        description=(
            "List the documents that you may read, with the doc_id for other tools. If next_cursor "
            "is present, repeat the call with it as cursor; if pending is true, list again later."
        ),
        arguments=DocumentListArguments,
        result=DocumentList,
        function=list_documents,
        find_document=no_document,
    )


def _listed(entry: CatalogEntry) -> ListedDocument:
    head = entry.head
    listed: ListedDocument = {
        "doc_id": head.doc_id,
        "title": head.title[:TITLE_CHARS],
        "pages": head.page_count,
        "tags": [tag[:TAG_CHARS] for tag in head.tags[:MAX_TAGS]],
        "updated": entry.updated.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if head.language is not None:
        listed["language"] = head.language
    if head.date is not None:
        listed["date"] = head.date
    if head.metadata:
        own = islice(head.metadata.items(), MAX_TAGS)
        listed["metadata"] = {name: _cut(value) for name, value in own}
    return listed


def _cut(value: MetadataValue) -> object:
    if isinstance(value, tuple):
        return [it[:TAG_CHARS] for it in value[:MAX_TAGS]]
    return value[:TAG_CHARS] if isinstance(value, str) else value


def _fit(documents: list[ListedDocument], max_bytes: int) -> list[ListedDocument]:
    """Return the first documents whose JSON fits in ``max_bytes``, but at least one."""
    bytes_left = max_bytes
    for number, document in enumerate(documents):
        bytes_left -= len(to_json(document)) + 1
        if bytes_left < 0 and number:
            return documents[:number]
    return documents
