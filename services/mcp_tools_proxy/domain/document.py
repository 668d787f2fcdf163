"""A document of one tenant: pages of text, sections, and chunks for retrieval."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import NamedTuple

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled range of pages (1-based, inclusive).

    ``start_char`` counts in the text of ``page_start``, ``end_char`` (exclusive) in that of
    ``page_end``; None means the page's start or end (contract §5).
    """

    section_id: str
    title: str
    page_start: int
    page_end: int
    start_char: int | None = None
    end_char: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A range of text that retrieval addresses by ``chunk_id``.

    ``chunk_index`` is its 0-based position in the document. The text is ``source[start:end]``, to
    avoid copies of the page's text.
    """

    chunk_id: str
    page: int
    chunk_index: int
    source: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The chunk's text."""
        return self.source[self.start : self.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The users of a tenant who may read a document: by user id or role."""

    users: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()

    def admit(self, caller: Caller) -> bool:
        """Return whether the caller is one of them; an empty user id never matches."""
        return (bool(caller.user_id) and caller.user_id in self.users) or not (
            self.roles.isdisjoint(caller.roles)
        )


class ImportWarning(NamedTuple):
    """Something in an imported file that was lost or is doubtful.

    ``code`` is a ``WarningCode`` (documents.importers.base); ``message`` is one sentence for
    operators, without advice, which depends on how they import.
    """

    code: str
    message: str


class DocumentSource(NamedTuple):
    """The file that a document was imported from: ``name`` of the source and relative ``path``.

    ``digest`` is the SHA-256 of the file in hex, ``importer`` the version of the importer.
    ``folder`` is a hash of the machine's name and the folder's path; "" is unknown.
    """

    name: str
    path: str
    digest: str
    importer: str
    folder: str = ""


MetadataValue = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document:
    """One document of one tenant.

    ``readers`` restricts it to some of the tenant's users; None means all. ``sections`` is keyed by
    section_id, in reading order. ``own_chunks`` were supplied with the document; None means that
    chunks are cut from its pages (documents.layout). ``language`` is a BCP 47 tag or None. ``ocr``
    has the OCR confidence of each page in per cent, None for native text; it is empty without OCR.
    ``text_format`` is "markdown" or "plain"; None, in documents from before it was stored, means
    unknown. ``date`` is the document's own date, as ``YYYY-MM-DD``. ``is_untrusted`` means that
    strangers could write its text.
    """

    tenant_id: str
    doc_id: str
    title: str
    pages: tuple[str, ...]
    sections: Mapping[str, Section] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    own_chunks: tuple[Chunk, ...] | None = None
    readers: Readers | None = None
    language: str | None = None
    ocr: tuple[int | None, ...] = ()
    text_format: str | None = None
    date: str | None = None
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    warnings: tuple[ImportWarning, ...] = ()
    source: DocumentSource | None = None
    expires_at: datetime | None = None
    is_untrusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHead:
    """Metadata of a document, without its text.

    ``version`` is the SHA-256 of its content (documents.versions), without ``readers``.
    ``text_chars`` counts the characters of its pages; other fields are as in ``Document``.
    """

    tenant_id: str
    doc_id: str
    title: str
    tags: tuple[str, ...] = ()
    page_count: int
    section_count: int = 0
    text_chars: int = 0
    version: str
    readers: Readers | None = None
    language: str | None = None
    ocr: tuple[int | None, ...] = ()
    date: str | None = None
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    source: DocumentSource | None = None
    expires_at: datetime | None = None
    is_untrusted: bool = False

    def ocr_confidence(self, page: int) -> int | None:
        """Return the OCR confidence of a page (1-based) in per cent; None without OCR."""
        return self.ocr[page - 1] if 1 <= page <= len(self.ocr) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRead:
    """A document whose text is in an answer, with the ranges of its pages (1-based, inclusive)."""

    doc_id: str
    version: str | None = None
    pages: tuple[tuple[int, int], ...] = ()
    is_untrusted: bool = False

    @property
    def as_json(self) -> dict[str, object]:
        """The document as audit records show it."""
        shown: dict[str, object] = {"doc_id": self.doc_id}
        if self.version is not None:
            shown["version"] = self.version
        if self.pages:
            shown["pages"] = self.pages
        if self.is_untrusted:
            shown["untrusted"] = True
        return shown


def page_ranges(pages: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of consecutive pages, in order."""
    ranges: list[tuple[int, int]] = []
    for page in sorted(set(pages)):
        if ranges and page == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], page)
        else:
            ranges.append((page, page))
    return tuple(ranges)


class PageSpan(NamedTuple):
    """A range of one page's text (1-based), in characters; ``end_char`` is exclusive."""

    page: int
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One search match with its context; a better match has a higher score.

    ``span`` is the snippet's position; None for a chunk whose text is not on its page.
    """

    snippet: str
    page: int
    score: float
    section_id: str | None = None
    chunk_id: str | None = None
    span: PageSpan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedChunk:
    """One chunk of a window, as the Retrieval Service returned it; missing fields are None.

    ``chunk_index`` is its 0-based position in the document, ``start_char`` and ``end_char`` in the
    page's text. ``version`` is the document's, ``ocr`` the page's OCR confidence in per cent.
    ``columns`` has the names of the columns if the chunk starts within a table.
    """

    chunk_id: str
    page: int | None
    chunk_index: int | None
    text: str
    start_char: int | None = None
    end_char: int | None = None
    version: str | None = None
    ocr: int | None = None
    columns: str | None = None
