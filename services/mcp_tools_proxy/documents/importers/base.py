"""Shared parts of the importers: options, errors, text cleaning, pages, sections.

Also finds pages without text and formats page numbers for messages.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from itertools import accumulate
from typing import Literal

from mcp_tools_proxy.domain.document import Document, ImportWarning, Section
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import TAGGED_FLAGS, cut_utf8, utf8_len

IMPORTER_VERSION = "1"
"""Increased by each release whose importers extract other text: `documents import FOLDER` then
imports all files again."""

PAGE_BYTES = 8000
"""Maximum page of a file without pages, in bytes of UTF-8 (contract §5: 8 kB)."""

MAX_ROW_BYTES = 20_000
"""Maximum row of a table with the column names: the default size of an answer to a model."""

MAX_HEADINGS = 100_000
"""Sections of a document; 300,000 of them are 33 MB of JSON."""

MAX_RANGES = 20
"""Page ranges listed; a book with a picture on every other page would fill screens."""

_TABLE_RULE = re.compile(r"(?=[^\n]*-)[-: \t]*\|[-:| \t]*\n")

_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_ISO_DATE = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DATE_FORMS = ("%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y")

_UNWANTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_PLANTED = re.compile(
    f"(?P<flag>{TAGGED_FLAGS})|(?P<tags>[\U000e0000-\U000e007f]+)"
    "|[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f"
    "\U000e0100-\U000e01ef]{4,}"
)
"""Tag characters, except those of flags, and runs of joiners, selectors and marks for line breaks
and directions, which can encode bytes. Spelling and emoji need up to three of these in a row."""

Progress = Callable[[int, int], None]
"""Called with the number of pages done and the total."""


class WarningCode(StrEnum):
    """What was lost or is doubtful in an imported file."""

    PAGES_WITHOUT_TEXT = "pages_without_text"
    OCR_WITHOUT_TEXT = "ocr_without_text"
    UNREADABLE_TEXT = "unreadable_text"
    HIDDEN_TEXT = "hidden_text"
    GUESSED_ENCODING = "guessed_encoding"
    LOST_EQUATION = "lost_equation"
    FORMULAS_WITHOUT_VALUES = "formulas_without_values"
    INSERTED_DOCUMENTS = "inserted_documents"
    BROKEN_FRONT_MATTER = "broken_front_matter"


def warning(code: WarningCode, message: str) -> ImportWarning:
    """Build a warning; ``message`` is one sentence without advice."""
    return ImportWarning(code.value, message)


def lost_equations(count: int) -> tuple[ImportWarning, ...]:
    """Return the warning about equations that were not read completely, if there are any."""
    if not count:
        return ()
    noun = "equation" if count == 1 else "equations"
    message = f"{count} {noun} could not be converted completely"
    return (warning(WarningCode.LOST_EQUATION, message),)


EMPTY = "is empty: check that it is the right file"
TOO_DEEP = "is nested too deeply to be read: save it with fewer levels"
NO_FORMATS = (
    "cannot be read by this installation: install mcp-tools-proxy[formats], or use the image tag "
    ":formats"
)


def _hidden_text(letters: int) -> tuple[ImportWarning, ...]:
    """Return the warning about text that readers cannot see, if there is any."""
    if not letters:
        return ()
    noun, verb = ("letter", "was") if letters == 1 else ("letters", "were")
    message = f"{letters} {noun} of hidden text {verb} left out"
    return (warning(WarningCode.HIDDEN_TEXT, message),)


def hidden_letters(texts: Iterable[str]) -> int:
    """Return the number of characters except white space."""
    return sum(len("".join(text.split())) for text in texts)


class ImportFailed(Exception):
    """The file cannot be imported; ``reason`` is one line for the importing user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of one import.

    Without ``title``, the file's own title is used, or ``stem``, its name without suffix. Scanned
    pages are read in ``ocr_languages`` (Tesseract's names), or stay without text. ``encoding`` is
    the text encoding that the request or the user named. ``with_notes`` keeps reviewers' notes and
    comments, ``with_link_targets`` the addresses of links.
    """

    tenant_id: str
    doc_id: str
    stem: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    ocr_languages: tuple[str, ...] = ()
    encoding: str | None = None
    with_notes: bool = True
    with_link_targets: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The start of a section: ``char`` is a 0-based offset in the text of ``page`` (1-based).

    A heading with a larger ``level`` starts a subsection of the previous section.
    """

    level: int
    title: str
    page: int
    char: int


_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,39}")
"""Name of a ``.traineddata`` file, without path separators."""


def check_languages(languages: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of OCR languages. Raises ValueError."""
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise ValueError("should be names such as eng, deu, chi_sim, separated by commas")
    return languages


def no_progress(done: int, total: int) -> None:
    """Do nothing: the default progress callback."""


def clean(text: str) -> str:
    """Remove control characters except newline and tab, lone surrogates and noncharacters."""
    return _UNWANTED.sub("", text)


class PlantedText:
    """A text with characters that carry text for models which no reader sees."""

    def __init__(self, text: str) -> None:
        matches = () if text.isascii() else _PLANTED.finditer(text)
        found = [it for it in matches if not it["flag"]]
        self._starts = [it.start() for it in found]
        self._lengths = [0, *accumulate(len(it[0]) for it in found)]
        self.rest = _PLANTED.sub(lambda it: it["flag"] or "", text) if found else text
        """The text without them."""
        self.letters = sum(len(it[0]) for it in found if it["tags"] or len(set(it[0])) > 1)
        """Their number; a run of one character, as editors leave it, carries nothing."""

    def offset(self, char: int) -> int:
        """Return the offset in ``rest`` of an offset in the text."""
        return char - self._lengths[bisect_left(self._starts, char)]


def one_line(text: str) -> str:
    """Return ``text`` on one line, for a title or tag: no control characters, single spaces."""
    return PlantedText(clean(" ".join(text.split()))).rest


def language_tag(text: str) -> str | None:
    """Return a stated language as a BCP 47 tag, ``de_DE.UTF-8`` as ``de-DE``; None if it is not."""
    tag = text.strip().partition(".")[0].replace("_", "-")
    return tag if len(tag) <= 35 and _LANGUAGE_TAG.fullmatch(tag) else None


def iso_date(text: str) -> str | None:
    """Return a stated date as ``YYYY-MM-DD``; None if it is not one, or could be two."""
    text = " ".join(text.split()).replace(",", "")
    if found := _ISO_DATE.match(text):
        text = "-".join(found.groups())
    for form in _DATE_FORMS:
        with suppress(ValueError):
            return datetime.strptime(text, form).date().isoformat()  # noqa: DTZ007 - a day
    return None


def paginate(text: str, edges: Sequence[int]) -> tuple[str, ...]:
    """Cut ``text`` into pages of at most PAGE_BYTES; joined, they are ``text`` again.

    A page ends at the last of ``edges`` (ascending offsets) that fits, otherwise after a line,
    a word or a character. A row of a table up to MAX_ROW_BYTES is not cut.
    """
    pages: list[str] = []
    start = 0
    while start < len(text):
        limit = start + len(cut_utf8(text[start : start + PAGE_BYTES], PAGE_BYTES))
        if limit < len(text):
            edge = bisect_right(edges, limit)
            if edge and edges[edge - 1] > start:
                limit = edges[edge - 1]
            else:
                limit = _page_end(text, start, limit)
        pages.append(text[start:limit])
        start = limit
    return tuple(pages)


def _page_end(text: str, start: int, limit: int) -> int:
    """Return the end of the last line up to ``limit``; column names stay with the first row."""
    end = max(text.rfind("\n", start, limit) + 1, start)
    last_line = max(text.rfind("\n", start, end - 1) + 1, start) if end > start else start
    is_in_names = end > start and _TABLE_RULE.fullmatch(text, last_line, end) is not None
    if end > start and not is_in_names:
        return end
    names = max(text.rfind("\n", start, last_line - 1) + 1, start) if last_line > start else start
    if names - start > PAGE_BYTES // 2:
        return names
    if is_in_names or text[start] == "|":
        row_end = text.find("\n", limit, start + MAX_ROW_BYTES) + 1 or len(text)
        if row_end - start <= MAX_ROW_BYTES and utf8_len(text[start:row_end]) <= MAX_ROW_BYTES:
            while text.startswith("\n", row_end):  # no page of an empty line
                row_end += 1
            return row_end
    if is_in_names:
        return names if names > start else end
    return text.rfind(" ", start, limit) + 1 or limit


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The facts that a file states about itself; "" and () if it does not.

    The options of an import take precedence over them; tags are added to those of the options.
    ``date`` is ``YYYY-MM-DD``, ``language`` a BCP 47 tag.
    """

    title: str = ""
    tags: tuple[str, ...] = ()
    date: str | None = None
    language: str | None = None


NO_FACTS = FileFacts()


def build_document(
    options: ImportOptions,
    *,
    facts: FileFacts = NO_FACTS,
    pages: tuple[str, ...],
    headings: Sequence[Heading],
    text_format: Literal["plain", "markdown"],
    warnings: Sequence[ImportWarning] = (),
    hidden_chars: int = 0,
) -> Document:
    """Build a document; ``hidden_chars`` is the number of hidden letters that were left out.

    A file without headings gets one section named after the document, so that ``read_doc_section``
    always works.

    Planted characters are left out, and counted as hidden, too. Raises ImportFailed if there are
    too many headings.
    """
    check_headings(len(headings))
    read = [PlantedText(page) for page in pages]
    pages = tuple(page.rest for page in read)
    headings = [
        replace(it, title=PlantedText(it.title).rest, char=read[it.page - 1].offset(it.char))
        for it in headings
    ]
    name = one_line(options.title or "") or one_line(facts.title) or one_line(options.stem)
    return Document(
        tenant_id=options.tenant_id,
        doc_id=options.doc_id,
        title=name,
        pages=pages,
        sections=sections_from(
            headings or (Heading(level=1, title=name, page=1, char=0),), last_page=len(pages)
        ),
        tags=tuple(dict.fromkeys((*options.tags, *facts.tags))),
        language=options.language or facts.language,
        date=facts.date,
        text_format=text_format,
        warnings=(*warnings, *_hidden_text(hidden_chars + sum(page.letters for page in read))),
    )


def check_headings(count: int) -> None:
    """Raise ImportFailed if a file has too many headings."""
    if count > MAX_HEADINGS:
        raise ImportFailed(f"has more than {MAX_HEADINGS} headings: cut it into parts")


def sections_from(headings: Sequence[Heading], *, last_page: int) -> Mapping[str, Section]:
    """Build the sections of ``headings``, given in reading order, parents first.

    A section ends at the next heading of the same or a higher level (contract §5). Headings at the
    same position share their text.
    """
    sections: dict[str, Section] = {}
    repeats: Counter[str] = Counter()
    for number, heading in enumerate(headings):
        here = (heading.page, heading.char)
        rest = (headings[at] for at in range(number + 1, len(headings)))  # a slice copies: n² for n
        following = (
            other
            for other in rest
            if other.level <= heading.level and (other.page, other.char) > here
        )
        page_end, end_char = last_page, None
        if after := next(following, None):
            page_end, end_char = (after.page, after.char) if after.char else (after.page - 1, None)
        section_id = _unused_id(_slug(heading.title), sections, repeats)
        sections[section_id] = Section(
            section_id=section_id,
            title=heading.title,
            page_start=heading.page,
            page_end=page_end,
            start_char=heading.char or None,
            end_char=end_char,
        )
    return sections


def _slug(title: str) -> str:
    """Return a readable id: lower-case letters, digits and marks of any script, and hyphens."""
    kept = "".join(
        c if c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" else " "
        for c in unicodedata.normalize("NFC", title).lower()
    )
    return "-".join(kept.split())[:80].strip("-") or "section"


def _unused_id(slug: str, used: Mapping[str, object], repeats: Counter[str]) -> str:
    unused = slug
    while unused in used:
        repeats[slug] += 1
        unused = f"{slug}-{repeats[slug] + 1}"
    return unused


def pages_without_text(document: Document) -> list[int]:
    """Return the numbers of the pages with only white space."""
    return [number for number, text in enumerate(document.pages, start=1) if not text.strip()]


def spell_pages(numbers: Sequence[int]) -> str:
    """Format ascending page numbers as ranges: ``2-4, 7``."""
    ranges = [
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(numbers)
    ]
    return join_first(ranges, limit=MAX_RANGES, separator=", ", more=" and {} more ranges")


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = number
        elif number != last + 1:
            yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last
