"""Finds tables and Markdown among texts without a suffix, by their form."""

import csv
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Sequence

_SAMPLE_BYTES = 64 * 1024
_MARKS = "\ufeff\ufffe\0"

_MOST_UNEVEN = 0.05
"""Part of rows with another number of cells that a table can have."""

_MAX_NAME_CHARS = 80
"""Longest name of a column."""

_SEPARATOR_LINE = re.compile(r'"?sep=[,;\t|]"?\s*\n')
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?:[A-Za-z][\w-]*:(?:[ \t].*)?\n|[ \t-].*\n|#.*\n)+---[ \t]*\n"
)
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*(?=\n[ \t]*(?:\n|\Z)|\Z)")
_ANY_HEADING = re.compile(r"^#{1,6} \S", re.MULTILINE)
_SENTENCE = re.compile(
    r"^(?:[-*+] |\d+[.)] )?[^\W\d_][^\n=;{}]*(?: [^\n=;{}]+){2}[.!?:]$", re.MULTILINE
)
_TABLE_RULE = re.compile(r"^\|?[^|\n]+\|[^\n]*\n\|?[ \t]*:?-{3,}:?[ \t]*\|[-:| \t]*$", re.MULTILINE)
_INLINE_MARKS = (
    re.compile(r"^```[\w+-]*\n(?:.*\n)*?```[ \t]*$", re.MULTILINE),
    re.compile(r"(?<!\\)\[[^\]\n]{1,200}\]\((?:https?://|mailto:|[\w./#-]+)[^)\s]*\)"),
    re.compile(r"(?<![\w*\\])\*\*[^\s*][^*\n]{0,200}\*\*(?![\w*])"),
)
"""Code blocks, links and bold text; one of them can also be in a text about something else."""


def start_of(data: bytes) -> str:
    """Return the first lines of a text, for ``is_table`` and ``is_markdown``."""
    start = data[:_SAMPLE_BYTES]
    is_utf_16 = start.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    text = start.decode("utf-16" if is_utf_16 else "utf-8", "replace")
    if text.count("\ufffd") > 1:  # one can be a character that is cut off
        text = start.decode("latin-1")
    text = text.translate(dict.fromkeys(map(ord, _MARKS))).replace("\r\n", "\n").replace("\r", "\n")
    # the last line can be cut off
    return text if len(data) <= _SAMPLE_BYTES else text[: text.rfind("\n") + 1]


def is_table(text: str) -> bool:
    """Return whether a text has columns, or states a separator for Excel."""
    if _SEPARATOR_LINE.match(text):
        return True
    return any(_has_columns(text, separator) for separator in "\t;,|")


def _has_columns(text: str, separator: str) -> bool:
    """Return whether the lines are rows of equal width below the names of columns.

    Prose has a space after its commas, and lists of numbers have decimal commas.
    """
    try:
        rows = [
            row for row in csv.reader(text.splitlines(keepends=True), delimiter=separator) if row
        ]
    except csv.Error:
        return False
    if not rows or len(rows) < (2 if separator == "\t" or len(rows[0]) > 2 else 3):
        return False
    widths = Counter(map(len, rows))
    width = len(rows[0])
    if width < 2 or widths[width] < (1 - _MOST_UNEVEN) * len(rows) or not _are_names(rows[0]):
        return False
    later = [cell for row in rows for cell in row[1:] if cell]
    spaced = sum(cell[0] == " " for cell in later)
    return separator in "\t|" or spaced <= len(later) // 10


def _are_names(cells: Sequence[str]) -> bool:
    names = [cell.strip() for cell in cells]
    return (
        len(set(names)) == len(names)
        and all(0 < len(name) <= _MAX_NAME_CHARS for name in names)
        and any(c.isalpha() or not c.isascii() for name in names for c in name)
        and not names[-1].endswith((".", "!", "?", ",", ";", ":"))
    )


def is_markdown(text: str) -> bool:
    """Return whether a text has front matter, a table, or headings or other marks with prose."""
    text = text.strip()
    if _FRONT_MATTER.match(text) or _TABLE_RULE.search(text):
        return True
    marks = sum(mark.search(text) is not None for mark in _INLINE_MARKS)
    headings = len(_HEADING.findall(text))
    # comments of scripts and settings look like headings, but stand directly above a line
    if not headings or headings < len(_ANY_HEADING.findall(text)):
        return marks > 1
    return marks > 0 or (text.startswith("#") and _SENTENCE.search(text) is not None)
