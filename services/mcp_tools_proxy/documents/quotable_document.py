"""Verification of quotes in one document."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, islice, product

from rapidfuzz import fuzz

from mcp_tools_proxy.documents.level_text import (
    NO_SPACES,
    Hyphen,
    LevelText,
    level_text,
)
from mcp_tools_proxy.documents.mapped_text import MappedText, TwiceMappedText
from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.documents.quote_readings import (
    NOTE_MARK,
    QuoteReading,
    is_left_out,
    readings_of,
    unmarked_readings_of,
    without_note_marks,
)
from mcp_tools_proxy.documents.visible_text import visible_text
from mcp_tools_proxy.domain.document import Document, PageSpan
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MAX_MATCHES = 10
"""Maximum number of positions returned for one quote."""

MAX_TRIED = 2_000
"""Maximum number of candidate positions: in 1 MB of "ab ab …", a quote with a missing last hyphen
took 98 s in the search thread of all tenants."""

LEAST_SIMILARITY = 0.5
"""Minimum similarity of a returned passage."""

_EXTENDED_CHARS = 40

_ALIGNED_CHARS = 256
"""Longest text aligned as a whole: 2,000 characters took 60 ms per position (Chinese: 380 ms) and
blocked other calls."""

_SEED_CHARS = 64
_SEEDS = 8
"""Number and length of the parts of a longer text that are aligned; each suggests a position."""

_TRIED_BETWEEN_PAUSES = 100

_WORD = re.compile(r"[^ ]+")

_PLAIN = "plain"
"""The format of pages whose lines may have been joined, such as those of a PDF."""

_JOINT = "\n"
"""Joins pages so that a word broken across them is one word."""

_NO_SPACES = re.compile(f"[{NO_SPACES}]")
_WORD_JOINTS = frozenset("'-")
_NUMBER_JOINTS = frozenset(".,/:")
_NUMBER_ENDS = frozenset("%‰°")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage similar to a quote, on one page; ``similarity`` is at most 1."""

    text: str
    similarity: float
    span: PageSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteCheck:
    """The exact positions of a quote, or otherwise the most similar passage.

    A position that crosses pages has one entry in ``spans`` per page.
    """

    spans: Sequence[PageSpan] = ()
    nearest: Passage | None = None


class QuotableDocument:
    """A document's normalized visible text; thread-safe."""

    def __init__(self, document: Document, *, has_note_marks: bool = True) -> None:
        """Normalize the pages. Slow (0.5 s per MB): call in a worker thread."""
        self._pages = document.pages
        self._text_format = document.text_format
        visible = visible_text(_JOINT.join(document.pages), text_format=document.text_format)
        self._visible: MappedText | TwiceMappedText = visible
        self._unmarked: QuotableDocument | None = None
        self._readings_of = readings_of if has_note_marks else unmarked_readings_of
        if not has_note_marks:
            self._visible = TwiceMappedText(visible, without_note_marks(visible.text))
        elif NOTE_MARK.search(visible.text):
            self._unmarked = QuotableDocument(document, has_note_marks=False)
        self._level = level_text(self._visible.text)
        self._begins = list(accumulate((len(it) + len(_JOINT) for it in self._pages), initial=0))

    @property
    def size_bytes(self) -> int:
        """Approximate memory in addition to the document."""
        visible = self._visible
        is_changed = not isinstance(visible, MappedText) or len(visible.levels) > 1
        unmarked = self._unmarked.size_bytes if self._unmarked is not None else 0
        own = self._level.size_bytes + 40 * len(self._begins)
        return own + unmarked + (visible.size_bytes if is_changed else 0)

    def find(self, quote: str) -> list[PageSpan]:
        """Return up to MAX_MATCHES positions of a quote, word for word.

        The quote can come from the page as shown or from its source.
        """
        for reading in self._readings_of(quote.strip(), self._text_format):
            wanted = level_text(reading.text)
            matches = _places(self._level, wanted, joins_lines=self._text_format == _PLAIN)
            places = (it for it in matches if self._fits(reading, wanted, it))
            if found := list(islice(places, MAX_MATCHES)):
                return [span for start, end in found for span in self._spans(start, end)]
        return self._unmarked.find(quote) if self._unmarked is not None else []

    def _fits(self, reading: QuoteReading, wanted: LevelText, place: tuple[int, int]) -> bool:
        """Return whether the document and the reading of a quote leave out the same text."""
        return all(
            is_left_out(part, self._left_out(place[0] + wanted.level_of(at)))
            for at, part in reading.left_out
        )

    def _left_out(self, level: int) -> str:
        """Return the part of a page that is left out at a position in the normalized text."""
        end = self._visible.start_of(self._level.start_of(level))
        start = self._visible.end_of(self._level.end_of(level))
        page = bisect_right(self._begins, end)
        begin, text = self._begins[page - 1], self._pages[min(page, len(self._pages)) - 1]
        return text[max(start - begin, 0) : end - begin]

    def nearest(self, quote: str, near: Sequence[PageSpan]) -> Passage | None:
        """Return the passage most similar to a quote around the positions ``near``, or None."""
        wanted = level_text(readings_of(quote.strip(), self._text_format)[-1].text).text
        best = None
        for place in near:
            found = self._like(wanted, place, best.similarity if best else LEAST_SIMILARITY)
            if found is not None and (best is None or found.similarity > best.similarity):
                best = found
        return best

    def _like(self, wanted: str, near: PageSpan, least: float) -> Passage | None:
        """Return the most similar passage around a position, with at least ``least``."""
        text = self._level.text
        first = max(self._level_of(near.page, near.start_char) - len(wanted), 0)
        window = text[first : self._level_of(near.page, near.end_char) + len(wanted)]
        start, end = 0, len(window)
        if len(wanted) < len(window):
            start, end = _most_like(wanted, window)
        start, end = _best_edges(
            wanted, text, *_whole_words(self._level, first + start, first + end)
        )
        similarity = round(fuzz.ratio(wanted, text[start:end]) / 100, 3)
        if similarity < least:
            return None
        span = max(self._spans(start, end), key=lambda it: it.end_char - it.start_char)
        shown = self._pages[span.page - 1][span.start_char : span.end_char]
        return Passage(text=shown, similarity=similarity, span=span)

    def _level_of(self, page: int, char: int) -> int:
        return self._level.level_of(self._visible.level_of(self._begins[page - 1] + char))

    def _spans(self, start: int, end: int) -> Iterator[PageSpan]:
        """Yield the page spans of a part of the normalized text, without outer white space."""
        first = self._visible.start_of(self._level.start_of(start))
        last = self._visible.end_of(self._level.end_of(end))
        page = bisect_right(self._begins, first)
        while page <= len(self._pages) and self._begins[page - 1] < last:
            begin, text = self._begins[page - 1], self._pages[page - 1]
            part = text[max(first - begin, 0) : last - begin]
            stripped = part.strip()
            if stripped:
                at = max(first - begin, 0) + len(part) - len(part.lstrip())
                yield PageSpan(page, at, at + len(stripped))
            page += 1


def _places(level: LevelText, wanted: LevelText, *, joins_lines: bool) -> Iterator[tuple[int, int]]:
    """Yield the positions of the wanted text: whole words only, with the same hyphens.

    With ``joins_lines``, words that were divided at the end of a line may have been joined.
    """
    spellings = _Spellings(level) if joins_lines else None
    for start in paced(islice(_starts(level, wanted), MAX_TRIED), every=_TRIED_BETWEEN_PAUSES):
        end = start + len(wanted.text)
        is_cut = _is_inside(level, start) or _is_inside(level, end) or _lacks_number(level, start)
        if not is_cut and _has_hyphens(level, wanted, start, spellings):
            yield start, end


def _starts(level: LevelText, wanted: LevelText) -> Iterator[int]:
    return _occurrences(level.text, wanted.text) if wanted.text else iter(())


def _occurrences(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _has_hyphens(
    level: LevelText, wanted: LevelText, start: int, spellings: "_Spellings | None"
) -> bool:
    """Return whether the words at ``start`` have the same hyphens as the wanted ones.

    A hyphen at the end of a line can be missing on either side.
    """
    end = start + len(wanted.text)
    there_are = (at for at in wanted.hyphens if 0 < at < len(wanted.text))
    for place in chain(there_are, (at - start for at in level.hyphens_between(start, end))):
        here, there = level.hyphen_at(start + place), wanted.hyphen_at(place)
        only = here or there
        if (here is None) == (there is None) or only in {Hyphen.AT_LINE_END, Hyphen.MIXED}:
            continue
        if spellings is None or not _is_divided(level.text, start + place):
            return False
        if spellings.are_two_words(start + place):
            return False
    return True


class _Spellings:
    """Finds words that a document has with and without a hyphen: to re-sign is not to resign."""

    def __init__(self, level: LevelText) -> None:
        self._level = level
        self._known: dict[tuple[str, str], bool] = {}

    def are_two_words(self, place: int) -> bool:
        """Return whether both spellings of the word around a position are in the document."""
        text = self._level.text
        before = _LETTERS.match(text[max(place - _LONGEST_HALF, 0) : place][::-1])
        after = _LETTERS.match(text[place : place + _LONGEST_HALF])
        halves = before[0][::-1] if before else "", after[0] if after else ""
        if halves not in self._known:
            if len(self._known) == _MOST_WORDS:
                return True
            self._known[halves] = {None, Hyphen.IN_LINE} <= self._hyphens(*halves)
        return self._known[halves]

    def _hyphens(self, first: str, second: str) -> set[Hyphen | None]:
        level, word = self._level, first + second
        return {
            level.hyphen_at(start + len(first))
            for start in islice(_occurrences(level.text, word), MAX_TRIED)
            if not _is_inside(level, start) and not _is_inside(level, start + len(word))
        }


_LETTERS = re.compile(r"[^\W\d_]*")
_LONGEST_HALF = 60
_MOST_WORDS = 20
"""Limit per quote; each word takes a search through the document."""

_DIVIDED = re.compile(r"[^\W\d_]{2}[^\W\d_A-Z]{2}")


def _is_divided(text: str, place: int) -> bool:
    """Return whether a hyphen there may divide a word at the end of a line."""
    return _DIVIDED.fullmatch(text, max(place - 2, 0), place + 2) is not None


def _is_inside(level: LevelText, place: int) -> bool:
    """Return whether a position is inside a word or number, so a quote would cut it."""
    hyphen = level.hyphen_at(place)
    if hyphen is not None:
        return hyphen is not Hyphen.DASH
    if not 0 < place < len(level.text):
        return False
    far_before, before = tuple(level.text[max(place - 2, 0) : place].rjust(2))
    after, far_after = tuple(level.text[place : place + 2].ljust(2))
    return (
        _are_joined(before, after)
        or (_is_joint(before, far_before, after) or _is_joint(after, before, far_after))
        or (before == "-" and after.isdigit())
        or (before.isdigit() and after in _NUMBER_ENDS)
        or (after == "^" and not before.isspace())
        or before == "^"
    )


def _lacks_number(level: LevelText, start: int) -> bool:
    """Return whether a quote starts with the mark after a number: ". Then" of "1. Then"."""
    first = level.text[start]
    is_mark = not (first.isspace() or _is_of_word(first))
    return start > 0 and level.text[start - 1].isdigit() and is_mark


def _are_joined(before: str, after: str) -> bool:
    """Return whether two characters belong to one word or number."""
    if unicodedata.combining(after):
        return True
    if not (_is_of_word(before) and _is_of_word(after)):
        return False
    is_number = before.isdigit() and after.isdigit()
    return is_number or not (_NO_SPACES.match(before) or _NO_SPACES.match(after))


def _is_joint(character: str, before: str, after: str) -> bool:
    """Return whether a character joins its neighbours to one word or number: can't, 1,000."""
    if character in _WORD_JOINTS:
        return _is_of_word(before) and _is_of_word(after)
    return character in _NUMBER_JOINTS and before.isdigit() and after.isdigit()


def _is_of_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _most_like(wanted: str, window: str) -> tuple[int, int]:
    """Return the part of a longer window that is most similar to the wanted text.

    A long text is aligned by _SEEDS parts spread over it; each suggests a position of the whole,
    and the most similar one wins.
    """
    if len(wanted) <= _ALIGNED_CHARS:
        return _align(wanted, window)
    starts = set()
    for number in range(_SEEDS):
        at = (len(wanted) - _SEED_CHARS) * number // (_SEEDS - 1)
        start, _ = _align(wanted[at : at + _SEED_CHARS], window)
        starts.add(min(max(start - at, 0), len(window) - len(wanted)))
    places = [(start, start + len(wanted)) for start in sorted(starts)]
    return max(places, key=lambda place: fuzz.ratio(wanted, window[slice(*place)]))


def _align(part: str, window: str) -> tuple[int, int]:
    """Return the part of a window that is most similar to a shorter text."""
    found = fuzz.partial_ratio_alignment(part, window)
    return (0, len(part)) if found is None else (found.dest_start, found.dest_end)


def _best_edges(wanted: str, text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a part by up to two words on each side to the most similar text.

    The part is as long as the wanted text, so it lacks words if the quote left some out.
    """
    before = text[max(start - _EXTENDED_CHARS, 0) : start]
    after = text[end : end + _EXTENDED_CHARS]
    starts = [start - len(before) + it.start() for it in _WORD.finditer(before)]
    ends = [end + it.end() for it in _WORD.finditer(after)]
    return max(
        product((start, *starts[-2:]), (end, *ends[:2])),
        key=lambda edges: fuzz.ratio(wanted, text[edges[0] : edges[1]]),
    )


def _whole_words(level: LevelText, start: int, end: int) -> tuple[int, int]:
    """Extend a part to whole words, by at most _EXTENDED_CHARS on each side."""
    least, most = start - _EXTENDED_CHARS, end + _EXTENDED_CHARS
    while start > least and _is_inside(level, start):
        start -= 1
    while end < most and _is_inside(level, end):
        end += 1
    return start, end
