"""What a list of documents asks a store for, what it gets, and how names are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.wire.text import normalize

NAME_CHARS = 1_000
"""Characters of a title or a tag that a query is compared with."""

TAGS_COUNTED = 100
"""How many tags of a document lists and searches know. With 600,000 in each of ten documents, the
index had none of them after 20 s, and the event loop waited for 0.3 s."""

SEPARATOR = "\n"
"""Stands between the names of a document where they are one text; no word of a query has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogQuery:
    """The documents that ``caller`` may read and is bound to, behind ``after`` by doc_id.

    ``words`` all occur in the title, the id or a tag, ``tag`` is one of the tags, and the id begins
    with ``id_prefix``; these three are folded (``fold``).
    """

    caller: Caller
    words: tuple[str, ...] = ()
    tag: str | None = None
    id_prefix: str = ""
    after: str = ""
    limit: int

    def admits(self, head: DocumentHead, names: Sequence[str], text: str) -> bool:
        """Return whether a document is listed; ``names`` are ``folded_names``, ``text`` joined."""
        documents, readers = self.caller.documents, head.readers
        if documents is not None and head.doc_id not in documents:
            return False
        if readers is not None and not readers.admit(self.caller):
            return False
        return self._matches(names, text)

    def _matches(self, names: Sequence[str], text: str) -> bool:
        for word in self.words:  # a generator took twice the time, 16 ms for 10,000 documents
            if word not in text:
                return False
        if self.tag is not None and self.tag not in names[2:]:
            return False
        return names[1].startswith(self.id_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One document of a list; ``updated`` is when its content was last written."""

    head: DocumentHead
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPage:
    """Some documents of a list, by doc_id.

    With ``has_more`` there are others behind the last one; while ``is_pending`` some are not known
    yet.
    """

    entries: Sequence[CatalogEntry]
    has_more: bool
    is_pending: bool


def fold(text: str) -> str:
    """Return the form in which names are compared: compatible characters, without case."""
    return normalize("NFKC", text[:NAME_CHARS]).casefold()


def folded_names(head: DocumentHead) -> tuple[str, ...]:
    """Return the title, the id and the first tags of a document, folded."""
    return fold_names(head.title, head.doc_id, head.tags)


def fold_names(title: str, doc_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a document folded: of its tags the first TAGS_COUNTED."""
    return tuple(map(fold, (title, doc_id, *tags[:TAGS_COUNTED])))


def words_of(query: str, *, limit: int) -> tuple[str, ...]:
    """Return the first words of a query, folded."""
    return tuple(fold(query).split()[:limit])
