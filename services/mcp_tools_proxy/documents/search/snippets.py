"""Finds the words of a query in a text and cuts snippets."""

import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from mcp_tools_proxy.documents.search.analysis import (
    PAIRED_RUN,
    RUN,
    TERM_BYTES,
    Analysis,
    clean,
    original_offset,
)
from mcp_tools_proxy.documents.search.spellings import (
    has_other_spelling,
    other_spellings,
    simplified,
)
from mcp_tools_proxy.documents.table_rows import (
    JOINT,
    Span,
    cells_of,
    column_at,
    column_names,
    named_cells,
    rows_of,
    table_at,
    tables_in,
)
from mcp_tools_proxy.documents.visible_text import Table, VisibleText
from mcp_tools_proxy.domain.fast_dataclass import dataclass

SNIPPET_CHARS = 600
"""Maximum length of a snippet in characters, with ellipses."""

CLUSTER_CHARS = 240
"""Maximum span of the matches in a snippet; the rest is context."""

ROW_CHARS = 1_500
"""Maximum length of a snippet that is a row of a table; in longer ones, cells are shortened."""

_LEAST_CELL_CHARS = 60

Match = tuple[int, int, str]
"""Start and end (exclusive) of a word, in characters, and the matched term of the query.

A plain tuple: a search makes hundreds, and objects would take longer than the engine's own work.
"""


def best_span(matches: Sequence[Match], weights: Mapping[str, int]) -> Span:
    """Return the span with the highest total weight of distinct terms, then most matches.

    ``matches`` are in reading order, and their terms have a weight ≥ 1. Of equal spans, the first
    is returned; (0, 0) without matches.
    """
    if not matches:
        return 0, 0
    inside = dict.fromkeys(weights, 0)
    weight = first = 0
    best_weight = best_count = best_first = best_last = 0
    begin = matches[0][0]
    for last, (_, end, term) in enumerate(matches):
        if not inside[term]:
            weight += weights[term]
        inside[term] += 1
        while end - begin > CLUSTER_CHARS and first < last:
            dropped = matches[first][2]
            inside[dropped] -= 1
            if not inside[dropped]:
                weight -= weights[dropped]
            first += 1
            begin = matches[first][0]
        count = last - first + 1
        if weight > best_weight or (weight == best_weight and count > best_count):
            best_weight, best_count, best_first, best_last = weight, count, first, last
    return matches[best_first][0], matches[best_last][1]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A snippet and the position of its words in the text, without the ellipses."""

    snippet: str
    start: int
    end: int


def excerpt(text: str, start: int, end: int, chars: int = SNIPPET_CHARS) -> Excerpt:
    """Return ``text[start:end]`` centred in its context, on one line, in whole words.

    At most ``chars`` long; "…" marks omitted text. A word that does not fit is cut.
    """
    width = chars - 2
    left = max(0, min(start - max(width - end + start, 0) // 3, len(text) - width))
    right = min(len(text), left + width)
    words = text[left:right].split()
    first, last = left, right
    if _inside_word(text, left) and len(words[0]) <= start - left:
        first += len(words.pop(0))
    if _inside_word(text, right) and len(words[-1]) <= right - end and len(words) > 1:
        last -= len(words.pop())
    before = "…" if left and not text[:left].isspace() else ""
    after = "…" if right < len(text) and not text[right:].isspace() else ""
    shown = text[first:last]
    return Excerpt(
        snippet=before + " ".join(words) + after,
        start=first + len(shown) - len(shown.lstrip()),
        end=first + len(shown.rstrip()) if words else first,
    )


def end_of_words(text: str, start: int, words: Sequence[str]) -> int | None:
    """Return the end of ``words`` at ``start``, separated by white space, or None."""
    end = start
    for word in words:
        while end < len(text) and text[end].isspace():
            end += 1
        if not text.startswith(word, end):
            return None
        end += len(word)
    return end


def _inside_word(text: str, place: int) -> bool:
    if not 0 < place < len(text):
        return False
    return not (text[place - 1].isspace() or text[place].isspace())


_PLAIN = frozenset(string.ascii_letters + string.digits + "".join(map(chr, range(0x410, 0x450))))
"""ASCII and А to я: if a word starts with one of these, so does its term, in lower case.

Stemming changes endings only. Other letters can become one of these: ё is е, é is e, ﬁ is fi.
"""

SCANNED_CHARS = 50_000
"""Characters of a text searched for a snippet; only a document's own chunks are longer."""


@dataclass(frozen=True, slots=True)
class QuotedMatch:
    """A snippet and its position in the original text; ``match`` is that of its rarest word."""

    snippet: str
    match: int
    start: int
    end: int


class MatchFinder:
    """Finds words with one of some terms in texts; for one search."""

    def __init__(self, weights: Mapping[str, int], analysis: Analysis) -> None:
        self._weights = weights
        self._analysis = analysis
        self._skipped = _PLAIN.difference(*((term[0], term[0].upper()) for term in weights))
        self._pairs = [term for term in weights if PAIRED_RUN.fullmatch(term)]

    def find(self, text: str) -> list[Match]:
        """Return the matches in reading order.

        Only distinct runs with the first letter of a term are looked up, in a tenth of the time. A
        part of a camel-case word ("UseCaseId") can have that letter too.
        """
        skipped, weights, term_of_run = self._skipped, self._weights, self._analysis.term_of_run
        matches: list[Match] = []
        for run in set(RUN.findall(text)):
            if run[0] in skipped and run.isalnum() and (run.islower() or run.istitle()):
                continue
            term = term_of_run.get(run)
            if term is None:
                term = self._analysis.learn_run(run)
            if term not in weights:
                term = self._part_of(run) if not term else ""
            if term:
                matches += [(place, place + len(run), term) for place in _whole(text, run)]
        matches += self._find_pairs(text)
        matches += self._find_spellings(text, weights.keys() - {term for _, _, term in matches})
        matches.sort()
        return matches

    def _find_spellings(self, text: str, missing: Collection[str]) -> Iterator[Match]:
        """Yield the words and numbers that have one of the missing terms in another spelling."""
        if not (missing and has_other_spelling(text, missing)):
            return
        for start, end, other in other_spellings(text):
            term = self._analysis.term_of_run.get(other) or self._analysis.learn_run(other)
            if term in missing:
                yield start, end, term

    def _find_pairs(self, text: str) -> Iterator[Match]:
        if not self._pairs:
            return
        folded = simplified(text)
        for pair in self._pairs:
            yield from ((place, place + len(pair), pair) for place in _all(folded, pair))

    def quote(self, page: VisibleText, start: int, end: int) -> QuotedMatch:
        """Return the best snippet of a part of a visible text, with positions in the original.

        In a table, the snippet is a whole row with the names of its columns.
        """
        end = min(end, start + SCANNED_CHARS)
        original = page.text[start:end]
        cleaned = clean(original)
        matches = self.find(cleaned)
        first, last = best_span(matches, self._weights)
        shown = [it for it in matches if first <= it[0] < last]
        if page.tables:
            weight = self._weight(shown)
            if table_at(page, start + first):
                weight = min(weight, 1)
            if row := self._best_row(page, start, end, weight):
                return self._quote_row(page, *row)
        rarest = max(shown, key=lambda it: self._weights[it[2]])[0] if shown else first
        first, last, match = (
            original_offset(original, cleaned, it) for it in (first, last, rarest)
        )
        found = excerpt(original, first, last)
        return QuotedMatch(
            snippet=clean(found.snippet),
            match=page.start_of(start + match),
            start=page.start_of(start + found.start),
            end=page.end_of(start + found.end),
        )

    def weight(self, text: str) -> int:
        """Return the weight of the query's terms in a text."""
        return self._weight(self.find(clean(text)))

    def _weight(self, matches: Iterable[Match]) -> int:
        return sum(self._weights[term] for term in {term for _, _, term in matches})

    def _best_row(
        self, page: VisibleText, start: int, end: int, least: int
    ) -> tuple[Table, Span] | None:
        """Return the row with the most weight of the query, of its cells and column names."""
        best: tuple[Table, Span] | None = None
        most = (least, 0)
        for table in tables_in(page, start, end):
            names, header_end = column_names(page, table)
            of_names = self.find(clean(" ".join(names)))
            for row in rows_of(page, table, max(start, header_end)):
                if row[0] >= end:
                    break
                if row[0] < header_end:
                    continue
                shown = max(start, row[0]), row[1]  # a long row is cut into several chunks
                own = self.find(clean(page.text[slice(*shown)]))
                found = (self._weight([*own, *of_names]), self._weight(own))
                if own and (found > most or (best is None and found[0] == least)):
                    best, most = (table, shown), found
        return best

    def _quote_row(self, page: VisibleText, table: Table, row: Span) -> QuotedMatch:
        """Quote a row with the names of its columns; a long one shows its first cell and matches.

        ``row`` can be a part of a row.
        """
        names, _ = column_names(page, table)
        column = column_at(page, table, row[0])
        cells = list(cells_of(page, *row))
        names = [*names[column:], *[""] * (len(cells) - len(names[column:]))][: len(cells)]
        if column:
            whole = max(table.start, page.text.rfind("\n", table.start, row[0]) + 1)
            (key, *_), (name, *_) = cells_of(page, whole, row[0]), column_names(page, table)[0]
            names, cells = [name, *names], [key, *cells]
        shown = cells
        if sum(map(len, (*names, *cells))) > ROW_CHARS:
            shown = [self._shortened(cell, ROW_CHARS // len(cells)) for cell in cells]
        if sum(map(len, (*names, *shown))) > 2 * ROW_CHARS:
            names = [self._shortened(name, 0) for name in names]
            kept = self._best_cells(names, shown)
            chars = ROW_CHARS // len(kept)
            shown = [
                self._shortened(cell, chars) if at in kept else "" for at, cell in enumerate(cells)
            ]
        snippet = JOINT.join(named_cells(names, shown))[: 2 * ROW_CHARS]
        start, end = page.start_of(row[0]), page.end_of(row[1])
        return QuotedMatch(clean(snippet), start, start, end)

    def _best_cells(self, names: Sequence[str], cells: Sequence[str]) -> set[int]:
        """Return the first cell, those with the most weight of the query, and others with matches.

        Names of columns count only for terms that are in no better cell.
        """
        of_names = [self._terms(name) if cells[at] else set() for at, name in enumerate(names)]
        own = [self._terms(cell) for cell in cells]
        kept, missing = [0], set(self._weights).difference(own[0], of_names[0])

        def weight(at: int) -> int:
            return sum(self._weights[term] for term in missing & (own[at] | of_names[at]))

        while weight(best := max(range(len(cells)), key=weight)):
            kept.append(best)
            missing -= own[best] | of_names[best]
        missing = set(self._weights)
        kept += sorted((at for at, terms in enumerate(own) if terms), key=weight, reverse=True)
        best_first = list(dict.fromkeys(kept))
        lengths = accumulate(len(names[at]) + len(cells[at]) for at in best_first)
        return {
            at
            for at, chars in zip(best_first, lengths, strict=True)
            if chars <= ROW_CHARS or not at
        }

    def _terms(self, text: str) -> set[str]:
        return {term for _, _, term in self.find(text)}

    def _shortened(self, cell: str, chars: int) -> str:
        """Return a cell, or the part of it with most of the query."""
        chars = max(chars, _LEAST_CELL_CHARS)
        if len(cell) <= chars:
            return cell
        first, last = best_span(self.find(cell), self._weights)
        return excerpt(cell, first, min(last, first + chars - 2), chars).snippet

    def _part_of(self, run: str) -> str:
        """Return the first weighted term of a run of several words, or ""."""
        terms = self._analysis.terms(run) if len(run) <= TERM_BYTES else ()
        return next((term for term in terms if term in self._weights), "")


def _whole(text: str, run: str) -> Iterator[int]:
    """Yield the positions of a run that is not part of a longer one."""
    for place in _all(text, run):
        end = place + len(run)
        if not (place and RUN.match(text, place - 1, place)) and not RUN.match(text, end, end + 1):
            yield place


def _all(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)
