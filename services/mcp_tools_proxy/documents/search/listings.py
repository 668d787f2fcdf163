"""Which texts are listings that point to other pages: tables of contents, back-of-book indexes."""

import re
from collections.abc import Sequence
from itertools import pairwise

_LEAST_ENTRIES = 3
_LEAST_SHARE = 0.6
"""Least share of the lines that have to be entries."""

_LEAST_ORDER = 0.75
"""Least share of neighbours in order, of pages or of labels: a table of numbers has less."""

_ENDING = re.compile(r"[\divxlc][ \t]*$", re.MULTILINE)
_LEADER = re.compile(r"(?:\. ?){4,}|(?:… ?){2,}|·{4,}|_{6,}")
_ENTRY = re.compile(r"(?P<label>\S.*?(?<!\d))[ ,.…·]+(?P<page>\d{1,4})(?:[,–-] ?\d{1,4})*$")


def is_listing(text: str, last_page: int) -> bool:
    """Return whether most lines are entries that end in a page, up to about ``last_page``.

    Rows of a table that end in a number are none: they are in no order, or have more numbers.
    """
    lines = text.count("\n") + 1
    if len(_ENDING.findall(text)) < max(_LEAST_ENTRIES, lines * _LEAST_SHARE):
        return False
    stripped = [line for line in map(str.strip, text.splitlines()) if line]
    leaders = sum(1 for line in stripped if _LEADER.search(line))
    if leaders >= max(_LEAST_ENTRIES, len(stripped) * _LEAST_SHARE):
        return True
    entries = [entry for line in stripped if (entry := _ENTRY.fullmatch(line))]
    pages = [int(entry["page"]) for entry in entries]
    pointing = sum(1 for page in pages if page <= last_page)
    if pointing < max(_LEAST_ENTRIES, len(stripped) * _LEAST_SHARE):
        return False
    labels = [entry["label"].casefold() for entry in entries]
    return _is_ordered(pages, sorted(pages)) or _is_ordered(labels, sorted(labels))


def _is_ordered(values: Sequence[object], ordered: Sequence[object]) -> bool:
    """Return whether most neighbours stand as in order, and not all are equal."""
    ranks = {value: rank for rank, value in enumerate(ordered)}
    steps = [ranks[before] <= ranks[after] for before, after in pairwise(values)]
    return ordered[0] != ordered[-1] and sum(steps) >= len(steps) * _LEAST_ORDER
