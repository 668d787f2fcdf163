"""What an index holds of a document: an entry for each chunk, and one with what it was made of.

Ids, users, roles and tags are there as hashes, texts as terms: snippets are cut from the document.
"""

import hashlib
import json
import secrets
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tantivy

from mcp_tools_proxy.documents.catalog.catalog_query import TAGS_COUNTED, fold
from mcp_tools_proxy.documents.layout import by_begin, each_chunk, section_at, span_of_chunk
from mcp_tools_proxy.documents.search.analysis import clean, prepare
from mcp_tools_proxy.documents.search.languages import Language
from mcp_tools_proxy.documents.search.listings import is_listing
from mcp_tools_proxy.documents.search.searched_text import SearchedText
from mcp_tools_proxy.documents.versions import rights_tag
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import Chunk, Document, DocumentHead, Readers

FORMAT = 1
"""Part of the folder's name: a release whose entries are others builds its own indexes."""

TEXT = "text"
"""The terms of a chunk, by the analysis of its document's language."""

TOKENIZER = "words"
"""What is registered under this name while something is written: the analysis of one language."""

DOCUMENT = "document"
READER = "reader"
TAG = "tag"
LANGUAGE = "language"
"""What entries of chunks are filtered by; nothing else has a READER."""

KEY = "key"
"""A random number of an entry, by which its coverage is looked up."""

GROUP = "group"
PAGE = "page"
LISTING = "listing"
PLACE = "place"
"""What is read of entries that were found: ``PLACE`` is an ``IndexedPlace``."""

HEAD = "head"
HEAD_READER = "head_reader"
STATE = "state"
"""What the one entry of a document has: its id, its readers, and its ``DocumentState``."""

ANYBODY = "*"

_NUMBER_BITS = 62


class IndexedPlace(NamedTuple):
    """Where a chunk stands: its characters on its page, and the sections that begin in it.

    ``start`` is None for a chunk whose text is not on its page. ``sections`` has their begins, in
    characters of the page, with their ids; "" is none.
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

    def section_at(self, char: int) -> str | None:
        """Return the id of the innermost section at a character of the page."""
        found = [section_id for begin, section_id in self.sections if begin <= char]
        return (found[-1] if found else "") or None


class DocumentState(NamedTuple):
    """Which form of a document an index has: ``stamp`` is another one for each."""

    doc_id: str
    stamp: str


def stamp_of(head: DocumentHead) -> str:
    """Return the stamp of a document that is indexed with its present content and readers."""
    return _term("s", f"{head.version} {rights_tag(head.readers)}")


def document_term(doc_id: str) -> str:
    """Return the term of a document."""
    return _term("d", doc_id)


def tag_term(tag: str) -> str:
    """Return the term of a tag, which has no case."""
    return _term("t", fold(tag))


def reader_terms(caller: Caller) -> Sequence[str]:
    """Return the terms of which a document that the caller may read has one."""
    users = [_term("u", caller.user_id)] if caller.user_id else []
    return [ANYBODY, *users, *(_term("r", role) for role in caller.roles)]


def new_schema() -> tantivy.Schema:
    """Build the schema."""
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
    """Yield the entries of a document, the one of its state last. Slow: for a worker thread."""
    sections = _SectionPlaces(document)
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
        place = _place(document, head, chunk, language.name, sections)
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
    """Return the place of an entry that was found. Raises ValueError, TypeError for damage."""
    return IndexedPlace(*json.loads(entry[PLACE][0]))


def read_state(entry: tantivy.Document) -> DocumentState:
    """Return the state that an entry has. Raises ValueError, TypeError for damage."""
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
    )


class _SectionPlaces:
    """Where on each page another section begins to be the innermost one."""

    def __init__(self, document: Document) -> None:
        self._sections = by_begin(document.sections.values())
        edges: defaultdict[int, set[int]] = defaultdict(set)
        for section in self._sections:
            edges[section.page_start].add(section.start_char or 0)
            if section.end_char is not None:
                edges[section.page_end].add(section.end_char)
        self._edges = {page: sorted(chars) for page, chars in edges.items()}

    def inside(self, page: int, start: int, end: int) -> Sequence[tuple[int, str]]:
        """Return the innermost section at ``start``, and those after it up to ``end``."""
        edges = self._edges.get(page, ())
        first, last = bisect_right(edges, start), bisect_right(edges, end)
        return [(edge, self._at(page, edge)) for edge in (start, *edges[first:last])]

    def _at(self, page: int, char: int) -> str:
        section = section_at(self._sections, page, char)
        return section.section_id if section else ""


def _terms_of(readers: Readers | None) -> list[str]:
    """Return the terms of the readers of a document."""
    if readers is None:
        return [ANYBODY]
    users = [_term("u", user) for user in readers.users]
    return users + [_term("r", role) for role in readers.roles]


def _term(kind: str, name: str) -> str:
    """Return the term of a name of any characters and length."""
    text = f"{kind}:{name}".encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32]
