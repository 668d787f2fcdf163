"""A document of one tenant: pages of text, sections over them, chunks for retrieval."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.fast_dataclass import dataclass as fast_dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled stretch of pages (1-based, inclusive).

    ``start_char`` counts in the text of ``page_start``, ``end_char`` (exclusive) in that of
    ``page_end``; None means from the page's begin, or to its end (contract §5).
    """

    section_id: str
    title: str
    page_start: int
    page_end: int
    start_char: int | None = None
    end_char: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A stretch of text that retrieval addresses by ``chunk_id``.

    ``chunk_index`` is its 0-based place in the document. The text is ``source[start:end]``, so a
    chunk cut from a page holds no second copy of it.
    """

    chunk_id: str
    page: int
    chunk_index: int
    source: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The chunk's own text."""
        return self.source[self.start : self.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Who may read a document among its tenant's users: by user id, or by one of their roles."""

    users: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()

    def admit(self, caller: Caller) -> bool:
        """Return whether the caller is one of them; a caller that names no user has no user id."""
        return (bool(caller.user_id) and caller.user_id in self.users) or not (
            self.roles.isdisjoint(caller.roles)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document:
    """One document of one tenant.

    ``readers`` are the users of the tenant who may read it; None means all of them.

    ``sections`` is keyed by section_id, in reading order. ``own_chunks`` are the chunks that came
    with the document; None means that they are cut from its pages (documents.layout).
    ``language`` is a tag of BCP 47, None where it is not known.

    ``ocr`` is empty, or has for each page how sure its OCR was, in per cent; None for a page whose
    text is the file's own.
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


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHead:
    """What is known of a document without its text.

    ``version`` is the SHA-256 of its content (documents.versions), without its ``readers``.
    ``text_chars`` counts the characters of its pages, ``ocr`` is as in ``Document``.
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

    def ocr_confidence(self, page: int) -> int | None:
        """Return how sure the OCR of a page (1-based) was, in per cent; None without OCR."""
        return self.ocr[page - 1] if 1 <= page <= len(self.ocr) else None


class PageSpan(NamedTuple):
    """A stretch of one page's text (1-based), in characters; ``end_char`` is exclusive."""

    page: int
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One match of a search: ``snippet`` quotes the text around it; a better one scores higher.

    ``span`` is where the snippet's words stand; None for a chunk whose text is not on its page.
    """

    snippet: str
    page: int
    score: float
    section_id: str | None = None
    chunk_id: str | None = None
    span: PageSpan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedChunk:
    """One chunk of a window, as the Retrieval Service returned it.

    ``chunk_index`` is its 0-based place in the document; None, like ``page``, where the service
    sends none. ``start_char`` and ``end_char`` are its place in the text of that page, ``version``
    is that of the document, ``ocr`` how sure the OCR of the page was, in per cent, where the
    service sends them.
    """

    chunk_id: str
    page: int | None
    chunk_index: int | None
    text: str
    start_char: int | None = None
    end_char: int | None = None
    version: str | None = None
    ocr: int | None = None
