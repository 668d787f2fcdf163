"""The compared engines: our search, and SQLite's FTS5 over the same chunks."""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence

from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.domain.document import Document

RESULTS = 5
"""Results per search: the tool's maximum."""

Search = Callable[[str], Sequence[int]]
"""Returns the pages for a question, best first."""

_WORD = re.compile(r"\w+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def ours(document: Document) -> Search:
    """Build the index that the tool uses."""
    index = build_index(document)
    return lambda question: [hit.page for hit in index.search(question, RESULTS)]


def fts5_porter(document: Document) -> Search:
    """Build FTS5 with the English stemmer; any of the words can match."""
    search = _fts5(document, "porter unicode61 remove_diacritics 2")
    return lambda question: search(_WORD.findall(question))


def fts5_trigram(document: Document) -> Search:
    """Build FTS5 with trigrams, which match parts of words; Chinese and Japanese by trigram."""
    search = _fts5(document, "trigram")
    return lambda question: search(
        [part for word in _WORD.findall(question) for part in _parts(word) if len(part) > 2]
    )


ENGINES: Mapping[str, Callable[[Document], Search]] = {
    "ours": ours,
    "FTS5 porter": fts5_porter,
    "FTS5 trigram": fts5_trigram,
}


def _parts(word: str) -> Sequence[str]:
    return [word[n : n + 3] for n in range(len(word) - 2)] if _CJK.search(word) else [word]


def _fts5(document: Document, tokenizer: str) -> Callable[[Sequence[str]], Sequence[int]]:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute(f'CREATE VIRTUAL TABLE chunks USING fts5(text, tokenize="{tokenizer}")')
    chunks = chunks_of(document)
    database.executemany("INSERT INTO chunks VALUES (?)", ((chunk.text,) for chunk in chunks))

    def search(words: Sequence[str]) -> Sequence[int]:
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        found = database.execute(
            "SELECT rowid FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?", (wanted, RESULTS)
        )
        return [chunks[row - 1].page for (row,) in found]

    return search
