"""Queries, bodies and answers of the routes that manage documents."""

import dataclasses
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from mcp_tools_proxy.documents.document_facts import EditableFacts, parse_metadata
from mcp_tools_proxy.documents.document_file import (
    MAX_METADATA,
    DocumentDate,
    ExpiryTime,
    Metadata,
    dump_metadata,
    dump_readers,
    load_metadata,
)
from mcp_tools_proxy.documents.document_filter import parse_filter
from mcp_tools_proxy.documents.document_store import DocumentFilter
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.importers.warning_advice import ImportEntry, advice_on
from mcp_tools_proxy.domain.document import (
    Document,
    DocumentHead,
    DocumentSource,
    ImportWarning,
    Readers,
)
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.wire.identifiers import Identifier, LanguageTag

MAX_READERS = 1_000
"""Limit of users, and of roles, in a query."""


class _StrictQuery(BaseModel):
    """A query whose unknown parameters are refused: `reader_users` opened a document to all."""

    model_config = ConfigDict(extra="forbid")


class DocumentsQuery(_StrictQuery):
    """Query of GET /internal/documents."""

    tenant_id: Annotated[
        Identifier | None,
        Field(description="Tenant whose documents are listed. Default: all tenants."),
    ] = None
    doc_id: Annotated[
        Identifier | None,
        Field(description="Only this document of the tenant, including its older versions."),
    ] = None
    cursor: Annotated[
        str | None, Field(description="The `next_cursor` of the previous page.", max_length=4096)
    ] = None

    filter: Annotated[
        DocumentFilter | None,
        PlainValidator(lambda text: None if text is None else parse_filter(text)),
        WithJsonSchema({"type": "string"}),
        Field(
            description='Filter as JSON, as in the tool `list_documents`: `{"tags": {"any": '
            '["hr"]}, "metadata": {"year": {"min": 2026}}}`.'
        ),
    ] = None

    @model_validator(mode="after")
    def _check_document(self) -> Self:
        if self.doc_id is not None and self.tenant_id is None:
            raise ValueError("give tenant_id with doc_id")
        return self


class RemovalQuery(_StrictQuery):
    """Query that removes several documents of a tenant."""

    tenant_id: Annotated[Identifier, Field(description="The documents' tenant.")]
    tag: Annotated[
        str | None, Field(description="Only documents with this tag.", max_length=1000)
    ] = None
    dry_run: Annotated[
        bool, Field(description="Only count and name the documents; `false` removes them.")
    ] = True


class DocumentQuery(_StrictQuery):
    """Query that names one document."""

    tenant_id: Annotated[Identifier, Field(description="The document's tenant.")]
    doc_id: Annotated[
        Identifier, Field(description=("The document's id. Percent-encode special characters."))
    ]


_PAIR = re.compile(r"[^=]{1,64}=[\s\S]{0,1000}")


def _check_pair(value: object) -> object:
    if isinstance(value, str) and _PAIR.fullmatch(value) is None:
        raise ValueError("should be KEY=VALUE with at most 64 and 1000 characters")
    return value


class UploadQuery(DocumentQuery):
    """Query of an upload. Title, tags and language are for files; the JSON form has its own."""

    title: Annotated[
        str | None, Field(description="Title. Default: the title in the file.", max_length=1000)
    ] = None
    tag: Annotated[list[str] | None, Field(description="May be repeated.", max_length=100)] = None
    language: Annotated[
        LanguageTag | None, Field(description="Language of the text as a BCP 47 tag, such as `de`.")
    ] = None
    reader_user: Annotated[
        list[Identifier] | None,
        Field(
            description="A user who may read the document. If this or `reader_role` is given, no "
            "one else can read it, from the start. May be repeated.",
            max_length=MAX_READERS,
        ),
    ] = None
    reader_role: Annotated[
        list[Identifier] | None,
        Field(
            description=("A role whose users may read the document. May be repeated."),
            max_length=MAX_READERS,
        ),
    ] = None

    def readers(self) -> Readers | None:
        """Return the users and roles that can read the document; None if the query has neither."""
        if self.reader_user is None and self.reader_role is None:
            return None
        return Readers(
            users=frozenset(self.reader_user or ()), roles=frozenset(self.reader_role or ())
        )

    metadata: Annotated[
        list[
            Annotated[
                str,
                StringConstraints(pattern=r"^[^=]{1,64}=[\s\S]{0,1000}$"),
                BeforeValidator(_check_pair),
            ]
        ]
        | None,
        Field(
            description="An own field as KEY=VALUE. May be repeated; a repeated key has a list.",
            max_length=MAX_METADATA,
        ),
    ] = None
    date: Annotated[
        DocumentDate | None, Field(description="The document's own date, such as 2027-01-31.")
    ] = None
    expires_at: Annotated[
        ExpiryTime | None,
        Field(description="Time at which the document expires, such as 2027-01-31T12:00:00Z."),
    ] = None

    untrusted: Annotated[
        bool,
        Field(
            description="Mark the document as one whose text strangers could write. It stays so "
            "when it is replaced; a change of its facts removes the mark."
        ),
    ] = False

    def apply_to(self, document: Document) -> Document:
        """Return an uploaded document with the readers and facts in the query."""
        readers, metadata = self.readers(), self.metadata
        return dataclasses.replace(
            document,
            readers=document.readers if readers is None else readers,
            metadata=document.metadata if metadata is None else parse_metadata(metadata),
            date=self.date or document.date,
            expires_at=self.expires_at or document.expires_at,
            is_untrusted=self.untrusted or document.is_untrusted,
            source=None,  # an upload belongs to no folder, even if it is the copy of a document
        )


class FactsChange(BaseModel):
    """New facts of a document; missing ones are removed, except for ``untrusted``."""

    model_config = ConfigDict(extra="forbid")

    tags: Annotated[list[str], Field(fail_fast=True, max_length=1_000)] = []
    date: DocumentDate | None = None
    metadata: Metadata = {}
    expires_at: ExpiryTime | None = None
    untrusted: Annotated[
        bool | None, Field(strict=True, description="Default: it stays as it is.")
    ] = None

    def to_facts(self) -> EditableFacts:
        """Return the domain's facts."""
        return EditableFacts(
            tags=tuple(one_line(tag) for tag in self.tags),
            date=self.date,
            metadata=load_metadata(self.metadata),
            expires_at=self.expires_at,
            is_untrusted=self.untrusted,
        )


class NamedReaders(BaseModel):
    """Users and roles that may read a document; either is enough, and empty lists allow no one."""

    model_config = ConfigDict(extra="forbid")

    users: Annotated[list[Identifier], Field(fail_fast=True)] = []
    roles: Annotated[list[Identifier], Field(fail_fast=True)] = []

    def to_readers(self) -> Readers:
        """Return the domain's readers."""
        return Readers(users=frozenset(self.users), roles=frozenset(self.roles))


class RightsChange(BaseModel):
    """New access rights: either `readers`, or all users of the tenant."""

    readers: NamedReaders | None = None
    all_users: bool | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.readers is None) is not bool(self.all_users):
            raise ValueError('give "readers", or "all_users": true')
        return self


class DocumentReaders(AnswerModel):
    """Users and roles of the tenant that may read a document. Either one is sufficient."""

    users: list[str]
    roles: list[str]

    @classmethod
    def of(cls, readers: Readers | None) -> Self | None:
        """Return readers for an answer; None if all users of the tenant can read."""
        return None if readers is None else cls.model_validate(dump_readers(readers))


ReadersField = Annotated[
    DocumentReaders | None,
    Field(description=("If missing, all users of the tenant may read the document.")),
]
LanguageField = Annotated[
    str | None, Field(description="Language of the text as a BCP 47 tag, if known.")
]


class DocumentWarning(AnswerModel):
    """Something in the imported file that was lost or is doubtful."""

    code: str
    message: str
    advice: str | None = None

    @classmethod
    def listed(
        cls, warnings: Sequence[ImportWarning], source: DocumentSource | None
    ) -> list[Self] | None:
        """Return the warnings of a document for an answer; None without warnings."""
        path = None if source is None else source.path
        return [
            cls(code=it.code, message=it.message, advice=advice_on(it, ImportEntry.HTTP, path))
            for it in warnings
        ] or None


class DocumentOrigin(AnswerModel, title="DocumentSource"):
    """The file that `documents import` read: its source and relative path."""

    name: str
    path: str
    digest: Annotated[str, Field(description="SHA-256 of the file, in hex.")]
    importer: Annotated[str, Field(description="Version of the importer.")]


DateField = Annotated[str | None, Field(description="The document's own date.")]
MetadataField = Annotated[dict[str, object] | None, Field(description="The document's own fields.")]
ExpiryField = Annotated[
    datetime | None, Field(description="From this time on, the document cannot be read.")
]
UntrustedField = Annotated[
    Literal[True] | None,
    Field(description="The document is marked as one whose text strangers could write."),
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
    date: DateField = None
    metadata: MetadataField = None
    expires_at: ExpiryField = None
    untrusted: UntrustedField = None
    source: DocumentOrigin | None = None
    warnings: Annotated[
        list[DocumentWarning] | None,
        Field(description="Warnings of the import. Only if one `doc_id` is listed or uploaded."),
    ] = None

    @classmethod
    def of(cls, head: DocumentHead, warnings: Sequence[ImportWarning] = ()) -> Self:
        """Return the metadata of a document, without its older versions."""
        return cls(
            tenant_id=head.tenant_id,
            doc_id=head.doc_id,
            title=head.title,
            tags=[*head.tags],
            pages=head.page_count,
            sections=head.section_count,
            text_chars=head.text_chars,
            version=head.version,
            readers=DocumentReaders.of(head.readers),
            language=head.language,
            date=head.date,
            metadata=dump_metadata(head.metadata) or None,
            expires_at=head.expires_at,
            untrusted=True if head.is_untrusted else None,
            source=None if head.source is None else DocumentOrigin.model_validate(head.source),
            warnings=DocumentWarning.listed(warnings, head.source),
        )


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


class RemovedDocuments(AnswerModel):
    """Documents that were removed, or that would be."""

    dry_run: bool
    doc_ids: list[str]
    has_more: Annotated[
        bool, Field(description="Whether there are more: repeat the request for the next ones.")
    ]


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
    text_format: Annotated[
        Literal["markdown", "plain"] | None, Field(description="Format of the pages, if known.")
    ] = None
    date: DateField = None
    metadata: MetadataField = None
    warnings: list[DocumentWarning] | None = None
    source: DocumentOrigin | None = None
    expires_at: ExpiryField = None
    untrusted: UntrustedField = None
    chunks: list[DocumentChunk] | None = None


class ChangedFacts(AnswerModel):
    """The facts of a document that can be changed."""

    tenant_id: str
    doc_id: str
    version: str
    tags: list[str]
    date: DateField = None
    metadata: MetadataField = None
    expires_at: ExpiryField = None
    untrusted: UntrustedField = None

    @classmethod
    def of(cls, head: DocumentHead) -> Self:
        """Return the facts of a document."""
        return cls(
            tenant_id=head.tenant_id,
            doc_id=head.doc_id,
            version=head.version,
            tags=[*head.tags],
            date=head.date,
            metadata=dump_metadata(head.metadata) or None,
            expires_at=head.expires_at,
            untrusted=True if head.is_untrusted else None,
        )


class DocumentRights(AnswerModel):
    """A document's access rights."""

    tenant_id: str
    doc_id: str
    readers: ReadersField = None
