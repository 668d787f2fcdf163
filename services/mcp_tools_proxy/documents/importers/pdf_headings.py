"""Headings of a PDF without bookmarks, by type size, weight, numbers and spacing.

Only certain headings are returned: a wrong section misleads more than none. Of 230 PDFs with hidden
bookmarks, 142 got headings; 5,036 of 5,099 were those of bookmarks.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.hyphens import DIVISION
from mcp_tools_proxy.documents.importers.pdf_words import PageCharacters
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_BOLD = re.compile(r"bold|black|heavy|demi|semi|[a-z]bx?\d|CMBX|cmssbx|-bd|medi", re.IGNORECASE)
_MOST_CHARS = 140


@lru_cache(maxsize=200)
def _is_bold(font: str) -> bool:
    return _BOLD.search(font) is not None


class TypeLine(NamedTuple):
    """A line of a page and its type; ``above`` is the distance to the line above, if any."""

    page: int
    text: str
    size: float
    font: str
    is_uniform: bool
    y: float
    above: float | None


def read_type_lines(
    number: int, characters: PageCharacters, spans: Sequence[tuple[int, int]]
) -> Iterator[TypeLine]:
    """Yield the lines of a page with their type."""
    before: float | None = None
    for start, end in spans:
        size = characters.size(start)
        if not size:
            continue
        text = " ".join(characters.text[start:end].split())
        y = characters.origin(start)[1]
        font = characters.font(start)
        last = start + len(characters.text[start:end].rstrip()) - 1
        is_uniform = (
            len(text) <= _MOST_CHARS
            and text[-1:] not in _ENDS
            and characters.font(last) == font
            and abs(characters.size(last) - size) < _SAME_SIZE * size
        )
        yield TypeLine(
            page=number,
            text=text[: _MOST_CHARS + 1],
            size=round(2 * size) / 2,
            font=font,
            is_uniform=is_uniform,
            y=y,
            above=before - y if before is not None and before > y else None,
        )
        before = y


_SAME_SIZE = 0.1

_NUMBER = re.compile(
    r"(?:(?i:chapter|section|part|appendix|article|kapitel|abschnitt|chapitre|cap[ií]tulo|capitolo)\s+)?"
    r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,5}|[A-Z](?:\.\d{1,3}){1,5}|[A-Z](?=[.\s]))(?P<mark>[.:)]?)\s+(?P<title>\S.*)"
)
_SECTION_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,3})+(?=[.\s])")
_ENDS = frozenset(f".,;:!?-{DIVISION}")
_ENTRY = re.compile(r"(?:\.\s?){3,}|\s\d+$")
_WORD = re.compile(r"[^\W\d_]{2}")
_CONTENTS = re.compile(
    r"(?:table of |list of )?contents|index|inhalt(?:sverzeichnis)?|table des mati[eè]res|sommaire|"
    r"[íi]ndice(?: general)?|indice|inhoud(?:sopgave)?|содержание|оглавление|目\s*[录錄次]",
    re.IGNORECASE,
)
_FEWEST = 3
_REPEATED = 3
_LEAST_ABOVE = 1.25
_MOST_GAP = 2
_MOST_STARTS = 20


class _Style(NamedTuple):
    size: float
    font: str


FoundHeading = tuple[int, str, int]
"""Level, title and page."""


def find_headings(lines: Sequence[TypeLine]) -> list[FoundHeading]:
    """Return the headings, or nothing if they are not certain."""
    page_type = _PageType.of(lines)
    if page_type is None:
        return []
    lines = _with_whole_titles(lines, page_type.body)
    candidates = [line for line in lines if page_type.is_candidate(line)]
    return _numbered(candidates) or _styled(lines, candidates, page_type.body)


def _with_whole_titles(lines: Sequence[TypeLine], body: float) -> list[TypeLine]:
    """Join the lines of a title that is larger or bolder than the text."""
    joined: list[TypeLine] = []
    for line in lines:
        before = joined[-1] if joined else None
        if (
            before is not None
            and line.above is not None
            and len(before.text) <= _MOST_CHARS
            and before.page == line.page
            and before.is_uniform
            and line.is_uniform
            and _style(before) == _style(line)
            and (line.size > body + 0.5 or _is_bold(line.font))
            and line.above <= _MOST_TITLE_PITCH * line.size
            and before.text[-1:] not in _ENDS
            and not _NUMBER.fullmatch(line.text)
        ):
            joined[-1] = before._replace(text=f"{before.text} {line.text}")
        else:
            joined.append(line)
    return joined


_MOST_TITLE_PITCH = 1.5


@dataclass(frozen=True, slots=True)
class _PageType:
    """The size of the text of a document, and its running titles."""

    body: float
    has_bold_text: bool
    running: Set[object]

    @classmethod
    def of(cls, lines: Sequence[TypeLine]) -> "_PageType | None":
        sizes: Counter[float] = Counter()
        for line in lines:
            sizes[line.size] += len(line.text)
        if not sizes:
            return None
        body = max(sizes, key=sizes.__getitem__)
        bold = sum(len(line.text) for line in lines if line.size == body and _is_bold(line.font))
        return cls(body, 2 * bold > sizes[body], _running_titles(lines))

    def is_candidate(self, line: TypeLine) -> bool:
        """Return whether a line stands out: larger or bolder than the text, on its own."""
        is_bold = not self.has_bold_text and _is_bold(line.font)
        is_larger = line.size > self.body + 0.5
        return (
            (is_larger or (is_bold and line.size >= self.body - 0.5))
            and _stands_alone(line, self.body)
            and _key(line.text) not in self.running
            and (round(line.y), line.size > 1.1 * self.body) not in self.running
        )


def _styled(
    lines: Sequence[TypeLine], candidates: Sequence[TypeLine], body: float
) -> list[FoundHeading]:
    """Return the lines in styles that only headings have: short, above text, on several pages."""
    pages = len({line.page for line in lines})
    chosen = {id(line) for line in candidates}
    totals: Counter[_Style] = Counter()
    groups: dict[_Style, list[_Styled]] = defaultdict(list)
    for line, below in zip(lines, [*lines[1:], None], strict=True):
        totals[_style(line)] += 1
        if id(line) in chosen:
            is_above_text = (
                below is not None
                and below.page == line.page
                and below.size == body
                and len(below.text) > _LEAST_TEXT
            )
            groups[_style(line)].append(_Styled(line, is_above_text))
    certain = {
        style for style, found in groups.items() if _are_headings(found, totals[style], pages)
    }
    sizes = sorted({style.size for style in certain}, reverse=True)
    return [
        (sizes.index(line.size), line.text, line.page)
        for line in candidates
        if _style(line) in certain
    ]


class _Styled(NamedTuple):
    line: TypeLine
    is_above_text: bool


_LEAST_TEXT = 40
_ONLY, _ABOVE_TEXT, _DIFFERENT, _CAPITAL = 0.9, 0.7, 0.9, 0.9
"""Least shares of the lines in a style: candidates, lines above text, different texts, capitals."""

_MOST_PER_PAGE = 3
_MEAN_CHARS = 50


def _are_headings(found: Sequence[_Styled], total: int, pages: int) -> bool:
    texts = [it.line.text for it in found]
    capitals = sum(text[0].isupper() or text[0].isdigit() for text in texts)
    return (
        _FEWEST <= len(found) <= _MOST_PER_PAGE * pages
        and len({it.line.page for it in found}) >= min(_FEWEST, pages)
        and len(found) >= _ONLY * total
        and sum(it.is_above_text for it in found) >= _ABOVE_TEXT * len(found)
        and len(set(texts)) >= _DIFFERENT * len(found)
        and capitals >= _CAPITAL * len(found)
        and sum(map(len, texts)) <= _MEAN_CHARS * len(found)
    )


def _style(line: TypeLine) -> _Style:
    return _Style(line.size, line.font)


def _key(text: str) -> str:
    """Return a text without digits, such as those of page numbers, but with its section number."""
    number = _SECTION_NUMBER.match(text)
    return (number[0] if number else "") + re.sub(r"[\W\d]+", " ", text).strip().lower()


def _running_titles(lines: Sequence[TypeLine]) -> set[object]:
    """Return texts on several pages, without their digits, and the heights of running titles."""
    pages: dict[object, set[int]] = defaultdict(set)
    edges: dict[int, tuple[float, float]] = {}
    for line in lines:
        pages[_key(line.text)].add(line.page)
        top, bottom = edges.get(line.page, (line.y, line.y))
        edges[line.page] = max(top, line.y), min(bottom, line.y)
    heights = Counter(round(y) for both in edges.values() for y in set(both))
    running: set[object] = {text for text, found in pages.items() if len(found) >= _REPEATED}
    for y, count in heights.items():
        if count >= max(_REPEATED, 0.3 * len(edges)):
            running.update((y + shift, False) for shift in (-1, 0, 1))
    return running


def _stands_alone(line: TypeLine, body: float) -> bool:
    return (
        line.is_uniform
        and len(line.text) <= _MOST_CHARS
        and _WORD.search(line.text) is not None
        and not _CONTENTS.fullmatch(line.text)
        and line.text[-1:] not in _ENDS
        and not _ENTRY.search(line.text)
        and (line.above is None or line.above >= _LEAST_ABOVE * body)
    )


def _numbered(candidates: Sequence[TypeLine]) -> list[FoundHeading]:
    """Return the headings whose numbers follow each other, in one style for each level."""
    found = [
        (line, tuple(match["number"].split(".")), match["mark"])
        for line in candidates
        if (match := _NUMBER.fullmatch(line.text)) and not match["title"][0].islower()
    ]
    for _ in range(2):
        chain = [found[at] for at in _longest_chain([number for _, number, _ in found])]
        styles: dict[int, Counter[tuple[_Style, str]]] = defaultdict(Counter)
        for line, number, mark in chain:
            styles[len(number)][_style(line), mark] += 1
        usual = {depth: max(it, key=it.__getitem__) for depth, it in styles.items()}
        found = [it for it in found if usual.get(len(it[1])) == (_style(it[0]), it[2])]
    if len(chain) < _FEWEST:
        return []
    return [(len(number) - 1, line.text, line.page) for line, number, _ in chain]


def _longest_chain(numbers: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the positions of the numbers that follow each other: 1, 1.1, 1.2, 2."""
    best: list[int] = []
    starts = [at for at, number in enumerate(numbers) if number in {("1",), ("1", "1"), ("0",)}]
    for start in starts[:_MOST_STARTS]:
        chain = [start]
        for at in range(start + 1, len(numbers)):
            if _follows(numbers[chain[-1]], numbers[at]):
                chain.append(at)
        if len(chain) > len(best):
            best = chain
    return best


def _follows(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    if len(after) == len(before) + 1 and after[:-1] == before:
        return after[-1] in {"1", "0"}
    same = len(after) - 1
    if len(after) > len(before) or after[:same] != before[:same]:
        return False
    if after[same].isdigit():
        return before[same].isdigit() and 1 <= int(after[same]) - int(before[same]) <= _MOST_GAP
    return (
        after[same] == "A" if before[same].isdigit() else ord(after[same]) == ord(before[same]) + 1
    )
