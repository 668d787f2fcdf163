"""Index entries of a document: one per chunk, and one for the document's state.

Ids, users, roles and tags are hashed, and text is stored as terms; snippets come from the document.
"""

import hashlib
import json
import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import tantivy

from mcp_tools_proxy.documents.document_store import TAGS_COUNTED, fold
from mcp_tools_proxy.documents.layout import by_begin, each_chunk, span_of_chunk
from mcp_tools_proxy.documents.search.analysis import Language, clean, prepare
from mcp_tools_proxy.documents.search.searched_text import SearchedText, is_listing
from mcp_tools_proxy.documents.table_rows import Span
from mcp_tools_proxy.documents.versions import rights_tag
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Chunk, Document, DocumentHead, Readers, Section

FORMAT = 5
"""Part of the folder's name: a release with other entries builds its own indexes."""

TEXT = "text"
"""Terms of a chunk, by the analysis of its document's language."""

TOKENIZER = "words"
"""Name under which the analysis of the language being written is registered."""

DOCUMENT = "document"
READER = "reader"
TAG = "tag"
LANGUAGE = "language"
"""Filter fields of chunk entries; other entries have no READER."""

KEY = "key"
"""Random number of an entry, used to look up its coverage."""

GROUP = "group"
PAGE = "page"
LISTING = "listing"
PLACE = "place"
"""Fields read from found entries; ``PLACE`` is an ``IndexedPlace``."""

HEAD = "head"
HEAD_READER = "head_reader"
STATE = "state"
"""Fields of a document's state entry: its id, its readers and its ``DocumentState``."""

ANYBODY = "*"

_NUMBER_BITS = 62

_Edge = tuple[int, int]
"""Page and character at which a section starts or has ended."""


class IndexedPlace(NamedTuple):
    """Position of a chunk: its characters on the page, and the sections that start in it.

    ``start`` is None if the chunk's text is not on its page. ``sections`` has the start of each
    section, in characters of the page, and its id ("" for none). ``repeated`` has the lines of the
    page that are not shown. ``content`` is equal in documents with the same pages.
    """

    doc_id: str
    version: str
    language: str
    page: int
    start: int | None
    end: int | None
    chunk_id: str
    chunk_index: int
    sections: Sequence[tuple[int, str]]
    text_format: str | None
    repeated: Sequence[Span]
    content: str

    def section_at(self, char: int) -> str | None:
        """Return the id of the innermost section at a character of the page."""
        found = [section_id for begin, section_id in self.sections if begin <= char]
        return (found[-1] if found else "") or None


class DocumentState(NamedTuple):
    """The indexed state of a document; ``stamp`` changes with its content and readers."""

    doc_id: str
    stamp: str


def stamp_of(head: DocumentHead) -> str:
    """Return the stamp of a document's current content and readers."""
    return _term("s", f"{head.version} {rights_tag(head.readers)}")


def document_term(doc_id: str) -> str:
    """Return the term of a document."""
    return _term("d", doc_id)


def tag_term(tag: str) -> str:
    """Return the term of a tag, ignoring case."""
    return _term("t", fold(tag))


def reader_terms(caller: Caller) -> Sequence[str]:
    """Return the terms of a caller; readable documents have at least one of them."""
    users = [_term("u", caller.user_id)] if caller.user_id else []
    return [ANYBODY, *users, *(_term("r", role) for role in caller.roles)]


def new_schema() -> tantivy.Schema:
    """Build the schema of an index."""
    builder = tantivy.SchemaBuilder().add_text_field(
        TEXT, tokenizer_name=TOKENIZER, index_option="freq"
    )
    for name in (DOCUMENT, READER, TAG, LANGUAGE, HEAD, HEAD_READER):
        builder = builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (GROUP, PAGE, LISTING):
        builder = builder.add_integer_field(name, fast=True)
    builder = builder.add_integer_field(KEY, indexed=True, fast=True)
    return builder.add_bytes_field(PLACE, stored=True).add_bytes_field(STATE, stored=True).build()


def entries_of(
    document: Document, head: DocumentHead, language: Language
) -> Iterator[tantivy.Document]:
    """Yield the entries of a document, its state last. Slow: call in a worker thread."""
    sections = _SectionPlaces(document)
    content = _content_of(document)
    term, readers = document_term(document.doc_id), _terms_of(document.readers)
    common = {
        DOCUMENT: term,
        READER: readers,
        TAG: [tag_term(tag) for tag in document.tags[:TAGS_COUNTED]],
        LANGUAGE: language.name,
        GROUP: int(term[:15], 16),
    }
    last_page = len(document.pages)
    searched = SearchedText(document)
    title = document.title
    for chunk in each_chunk(document):
        text = prepare(f"{title}\n{searched.of(chunk)}")
        title = ""  # with the first chunk only
        place = _place(document, head, chunk, language.name, sections)._replace(
            repeated=searched.repeated(chunk), content=content
        )
        fields: dict[str, object] = {
            **common,
            TEXT: text,
            KEY: secrets.randbits(_NUMBER_BITS),
            PAGE: chunk.page,
            LISTING: int(is_listing(clean(chunk.text), last_page)),
            PLACE: json.dumps(place).encode(),
        }
        yield tantivy.Document(**fields)
    state = json.dumps(DocumentState(document.doc_id, stamp_of(head))).encode()
    yield tantivy.Document(**{HEAD: term, HEAD_READER: readers, STATE: state})


def read_place(entry: tantivy.Document) -> IndexedPlace:
    """Return the position in a found entry. Raises ValueError or TypeError if damaged."""
    return IndexedPlace(*json.loads(entry[PLACE][0]))


def read_state(entry: tantivy.Document) -> DocumentState:
    """Return the state in an entry. Raises ValueError or TypeError if damaged."""
    return DocumentState(*json.loads(entry[STATE][0]))


def _place(
    document: Document,
    head: DocumentHead,
    chunk: Chunk,
    language: str,
    sections: "_SectionPlaces",
) -> IndexedPlace:
    span = span_of_chunk(chunk, document.pages)
    start, end = (None, None) if span is None else (span.start_char, span.end_char)
    return IndexedPlace(
        doc_id=document.doc_id,
        version=head.version,
        language=language,
        page=chunk.page,
        start=start,
        end=end,
        chunk_id=chunk.chunk_id,
        chunk_index=chunk.chunk_index,
        sections=sections.inside(chunk.page, start or 0, end or 0),
        text_format=document.text_format,
        repeated=(),
        content="",
    )


def _content_of(document: Document) -> str:
    digest = hashlib.sha256()
    for text in (*document.pages, *(chunk.text for chunk in document.own_chunks or ())):
        digest.update(text.encode(errors="surrogatepass") + b"\0")
    return digest.hexdigest()[:32]


class _SectionPlaces:
    """The innermost section from each section edge on, computed in one pass.

    Individual lookups took 3 s for 10,000 sections with text between them, and 100 times as long
    for ten times as many.
    """

    def __init__(self, document: Document) -> None:
        sections = by_begin(document.sections.values())
        edges = {edge for section in sections for edge in (_begin_of(section), _end_of(section))}
        self._edges = sorted(edges)
        self._ids = list(_innermost(sections, self._edges))

    def inside(self, page: int, start: int, end: int) -> Sequence[tuple[int, str]]:
        """Return the innermost section at ``start``, and those after it up to ``end``."""
        first = bisect_right(self._edges, (page, start))
        last = bisect_right(self._edges, (page, end))
        at_start = self._ids[first - 1] if first else ""
        chars = (char for _, char in self._edges[first:last])
        return [(start, at_start), *zip(chars, self._ids[first:last], strict=True)]


def _innermost(sections: Sequence[Section], edges: Sequence[_Edge]) -> Iterator[str]:
    """Yield the id of the innermost section after each edge, or "".

    ``sections`` are ordered by start.
    """
    begun: list[tuple[int, Section]] = []
    """Heap of open sections, the last to start first."""
    number = 0
    for edge in edges:
        while number < len(sections) and _begin_of(sections[number]) <= edge:
            heappush(begun, (-number, sections[number]))
            number += 1
        while begun and _end_of(begun[0][1]) <= edge:
            heappop(begun)
        yield begun[0][1].section_id if begun else ""


def _begin_of(section: Section) -> _Edge:
    return section.page_start, section.start_char or 0


def _end_of(section: Section) -> _Edge:
    if section.end_char is None:
        return section.page_end + 1, 0
    return section.page_end, section.end_char


def _terms_of(readers: Readers | None) -> list[str]:
    if readers is None:
        return [ANYBODY]
    users = [_term("u", user) for user in readers.users]
    return users + [_term("r", role) for role in readers.roles]


def _term(kind: str, name: str) -> str:
    """Return a fixed-size term for a name of any characters and length."""
    text = f"{kind}:{name}".encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32]
