"""Models of the answers of the routes that look after documents."""

from typing import Annotated

from pydantic import Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel


class DocumentReaders(AnswerModel):
    """Users and roles of the tenant that may read a document. Either one is sufficient."""

    users: list[str]
    roles: list[str]


ReadersField = Annotated[
    DocumentReaders | None,
    Field(description=("If missing, all users of the tenant may read the document.")),
]
LanguageField = Annotated[
    str | None, Field(description="Language of the text as a BCP 47 tag, if known.")
]


class DocumentFacts(AnswerModel):
    """A document's metadata."""

    tenant_id: str
    doc_id: str
    title: str
    tags: list[str]
    pages: Annotated[int, Field(description="The number of pages.")]
    sections: Annotated[int, Field(description="The number of sections.")]
    text_chars: int
    version: Annotated[str, Field(description="SHA-256 of the content, also sent as `ETag`.")]
    readers: ReadersField = None
    language: LanguageField = None
    older_versions: Annotated[
        list[str] | None,
        Field(
            description=(
                "Older versions that are kept, newest first. Only if one `doc_id` is listed."
            )
        ),
    ] = None


class DocumentProblem(AnswerModel):
    """An unusable file or entry in the document store."""

    file: str
    reason: str


class DocumentsAnswer(AnswerModel, title="DocumentList"):
    """Documents, sorted by tenant and doc_id."""

    documents: list[DocumentFacts]
    next_cursor: Annotated[
        str | None, Field(description="The `cursor` of the next page, if there is one.")
    ] = None
    problems: Annotated[
        list[DocumentProblem] | None,
        Field(
            description="Files that cannot be used. Shown only to operators who are not limited to "
            "one tenant."
        ),
    ] = None


class DocumentSection(AnswerModel):
    """A titled range of pages, numbered from 1, with characters on the first and last page."""

    section_id: str
    title: str
    page_start: int
    page_end: int
    start_char: int | None = None
    end_char: int | None = None


class DocumentChunk(AnswerModel):
    """A chunk of text supplied with the document."""

    chunk_id: str
    page: int
    text: str


class DocumentContent(AnswerModel):
    """A whole document in the format of document files."""

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
            description="For pages read by OCR, the confidence for each page as a percentage; "
            "null for a page that already has text."
        ),
    ] = None
    chunks: list[DocumentChunk] | None = None


class DocumentRights(AnswerModel):
    """A document's access rights."""

    tenant_id: str
    doc_id: str
    readers: ReadersField = None
