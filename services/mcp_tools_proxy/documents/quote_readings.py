"""The ways to read a quote: as shown on the page, or as copied from its source.

Marks without letters and digits are left out of a quote freely. Other parts, such as numbers of
lists and targets of links, must be left out in the document as well: "- 5" is not 5, and "2. Open"
is not "1. Open".
"""

import re
from collections.abc import Iterator, Sequence

from mcp_tools_proxy.documents.inline_marks import with_scripts
from mcp_tools_proxy.documents.mapped_text import MappedText, TextEditor
from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.documents.visible_text import MARKDOWN, visible_text
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import normalize

_IN_MARKDOWN = re.compile(r"[*_`\\\[\]<>|&#~+-]|[0-9][.)]\s")
_LIST_MARK = re.compile(r"(?:(?<=\s)|^)(?:[-*+]|[0-9]{1,9}[.)])\s+(?=\S)|\s*\[\^[^\[\]\s]{1,50}\]")
_REMNANT = re.compile(
    r"\*++(?=\S)|(?<=\S)\*++|(?<!\w)_++(?=\S)|(?<=\S)_++(?!\w)|`++|~~|\[(?=\w)"
    r"|\](?:\([^()\s]*\)?|\[[^\[\]]*\]?)?|\\(?=[!-/:-@\[-`{-~])"
)
"""Marks whose other half is outside the quote."""

_MARKS_BETWEEN_PAUSES = 1_000

_BAR = re.compile(r"(?<!\\)\|")
_MARK = re.compile(r"(?:(?<=[\s>])|^)(?:>|(?:[-*+]|[0-9]{1,9}[.)])(?=\s))")
_PLAIN_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]*\s*/?>")


NOTE_MARK = re.compile(r"\[(?<!\S\[)\d{1,3}(?:[,;–-] ?\d{1,3})*\](?=[\s.,;:!?)”’»\"']|\Z)")
"""The mark of a footnote as importers write it."""

_RAISED_MARK = re.compile(
    r"(?:(?<=[^\W\d_]{2})|(?<=[^\W\d][.,;:!?)”’»\"']))[\^\[]?"
    r"([\d⁰¹²³⁴-⁹]{1,3}(?:[,;–-][\d⁰¹²³⁴-⁹]{1,3})*)\]?(?![^\s.,;:!?)”’»\"'])"
)
"""The mark of a footnote as it is copied from a page: word1, word¹."""


@dataclass(frozen=True, slots=True)
class QuoteReading:
    """A quote as read, and the parts left out of it, with their positions in ``text``."""

    text: str
    left_out: Sequence[tuple[int, str]] = ()


def readings_of(quote: str, text_format: str | None) -> Sequence[QuoteReading]:
    """Return the different readings of a quote from a document, the one as shown first."""
    return list({reading.text: reading for reading in _readings(quote, text_format)}.values())


def without_note_marks(text: str) -> MappedText:
    """Return a text without the marks of its footnotes."""
    editor = TextEditor(text)
    for found in paced(NOTE_MARK.finditer(text), every=_MARKS_BETWEEN_PAUSES):
        start, end = found.span()
        is_after_word = text[start - 1 : start] == " " and not text[start - 2 : start - 1].isspace()
        editor.replace(start - is_after_word, end, "")
    return editor.finish()


def unmarked_readings_of(quote: str, text_format: str | None) -> Sequence[QuoteReading]:
    """Return the readings of a quote without the marks of footnotes: [1], word1 or word¹."""
    bracketed = _RAISED_MARK.sub(lambda it: f" [{normalize('NFKC', it[1])}]", with_scripts(quote))
    return [
        _edited(reading, without_note_marks(reading.text))
        for spelling in dict.fromkeys((quote, bracketed))
        for reading in readings_of(spelling, text_format)
    ]


def is_left_out(part: str, of_document: str) -> bool:
    """Return whether a part left out of a quote is a mark, or is in that of the document."""
    part = _PLAIN_TAG.sub(" ", part)
    marks = _MARK.findall(part)
    if marks and not set(marks) <= set(_MARK.findall(of_document)):
        return False
    rest = " ".join(_MARK.sub(" ", part).split())
    # a link can be quoted without its title
    return not any(map(str.isalnum, rest)) or rest.rstrip(")") in " ".join(of_document.split())


def _readings(quote: str, text_format: str | None) -> Iterator[QuoteReading]:
    yield QuoteReading(quote)
    if "<su" in quote:
        yield QuoteReading(with_scripts(quote))
    if text_format == MARKDOWN and _IN_MARKDOWN.search(quote):
        yield from _of_source(QuoteReading(quote))
    if "|" in quote:
        without_bars = _without(QuoteReading(quote), _BAR, " ")
        yield without_bars
        if text_format == MARKDOWN:
            yield from _of_source(without_bars)


def _of_source(reading: QuoteReading) -> Iterator[QuoteReading]:
    reading = _edited(reading, visible_text(reading.text, text_format=MARKDOWN))
    yield reading
    reading = _without(reading, _LIST_MARK, " ")
    yield reading
    yield _without(reading, _REMNANT, "")


def _without(reading: QuoteReading, pattern: re.Pattern[str], new: str) -> QuoteReading:
    editor = TextEditor(reading.text)
    for found in pattern.finditer(reading.text):
        editor.replace(*found.span(), new)
    return _edited(reading, editor.finish())


def _edited(reading: QuoteReading, edited: MappedText) -> QuoteReading:
    """Return a reading of a reading, without outer white space."""
    indent = len(edited.text) - len(edited.text.lstrip())
    left_out = [(edited.level_of(at), part) for at, part in reading.left_out]
    edges = list(zip(edited.levels, edited.places, strict=True))
    for (level, start), (level_end, end) in zip(edges[1::2], edges[2::2], strict=True):
        if not edited.text[level:level_end].strip():
            left_out.append((level, reading.text[start:end]))
    return QuoteReading(
        edited.text.strip(), [(max(level - indent, 0), part) for level, part in left_out]
    )
