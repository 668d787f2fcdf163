"""Models of the answers of the routes that look after documents."""

from typing import Annotated

from pydantic import Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel


class DocumentReaders(AnswerModel):
    """Who of the tenant may read a document: by user id or by role, either is enough."""

    users: list[str]
    roles: list[str]


ReadersField = Annotated[
    DocumentReaders | None, Field(description="Without it all of the tenant may read the document.")
]
LanguageField = Annotated[
    str | None, Field(description="The text's language, by its tag of BCP 47, where it is known.")
]


class DocumentFacts(AnswerModel):
    """What is known of a document without its text."""

    tenant_id: str
    doc_id: str
    title: str
    tags: list[str]
    pages: Annotated[int, Field(description="The number of pages.")]
    sections: Annotated[int, Field(description="The number of sections.")]
    text_chars: int
    version: Annotated[str, Field(description="The SHA-256 of the content; its `ETag` is this.")]
    readers: ReadersField = None
    language: LanguageField = None
    older_versions: Annotated[
        list[str] | None,
        Field(description="Those that are kept, the newest first; of a list of one `doc_id` only."),
    ] = None


class DocumentProblem(AnswerModel):
    """Something in the store that cannot be used."""

    file: str
    reason: str


class DocumentsAnswer(AnswerModel, title="DocumentList"):
    """Documents, ordered by tenant and doc_id."""

    documents: list[DocumentFacts]
    next_cursor: Annotated[
        str | None, Field(description="The `cursor` of the next page; only where there is one.")
    ] = None
    problems: Annotated[
        list[DocumentProblem] | None,
        Field(description="Files that cannot be used; for those who look after all tenants."),
    ] = None


class DocumentSection(AnswerModel):
    """A titled stretch of pages, counted from 1, with characters in its first and last page."""

    section_id: str
    title: str
    page_start: int
    page_end: int
    start_char: int | None = None
    end_char: int | None = None


class DocumentChunk(AnswerModel):
    """A stretch of text that came with the document."""

    chunk_id: str
    page: int
    text: str


class DocumentContent(AnswerModel):
    """A whole document, as its file spells it."""

    doc_id: str
    tenant_id: str
    title: str
    tags: list[str]
    pages: Annotated[list[str], Field(description="The text of each page.")]
    sections: list[DocumentSection]
    readers: ReadersField = None
    language: LanguageField = None
    ocr: Annotated[
        list[int | None] | None,
        Field(
            description="Where pages were read by OCR: how sure it was of each, in per cent; null "
            "for a page whose text is the file's own."
        ),
    ] = None
    chunks: list[DocumentChunk] | None = None


class DocumentRights(AnswerModel):
    """Who may read a document."""

    tenant_id: str
    doc_id: str
    readers: ReadersField = None
