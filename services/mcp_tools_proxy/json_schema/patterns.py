"""Bounds the cost of a schema's patterns, per character of the text that is checked.

A pattern without look-around and back-references runs in time linear in text × pattern. The
others backtrack, and a single step may scan the rest of the text: 100 kB of ``a`` against
``(?=.*[A-Z])(?=.*\\d).{8,}`` took 58 s with 100,000 steps allowed.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, validator_for

BACKTRACKING_NS = 100_000
"""Per character, for texts up to some hundred characters and 10,000 steps of backtracking."""

MAX_PATTERN_BYTES = 4_096_000
"""Compiled size of the patterns of one schema; compiling a megabyte takes 3 ms."""

_SMALLEST_BYTES = 1_000
_STEP = 4
_BYTES_PER_NS = 4
"""Measured: a character takes up to 0.17 ns for each byte of the compiled pattern."""

_ONE_CHARACTER = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\[^1-9bBkpP]|\.", re.DOTALL
)
"""A class of characters. Compiled as UTF-8 it is large, and still one position of the pattern."""


class PatternCost(NamedTuple):
    """``char_ns`` is the cost per character, ``size`` the compiled size in bytes."""

    char_ns: int
    size: int
    backtracks: bool


@lru_cache(maxsize=20_000)
def cost_of_pattern(pattern: str) -> PatternCost | None:
    """Return the cost of a pattern; None for one that is not valid, or too large."""
    size = _compiled_size(pattern, RegexOptions)
    if size is None:
        size = _compiled_size(pattern, FancyRegexOptions)
        if size is None:
            return None
        return PatternCost(BACKTRACKING_NS, size, True)
    positions = _compiled_size(_ONE_CHARACTER.sub("a", pattern), RegexOptions) or size
    return PatternCost(min(positions, size) // _BYTES_PER_NS, size, False)


def _compiled_size(
    pattern: str, options: type[RegexOptions] | type[FancyRegexOptions]
) -> int | None:
    """Return the size of the compiled pattern, rounded up; None if this engine does not know it.

    Also None above the limit. Small sizes come first, as compiling takes time linear in the size.
    """
    size = _SMALLEST_BYTES
    while size <= MAX_PATTERN_BYTES:
        if _compiles(pattern, options(size_limit=size)):
            return size
        size *= _STEP
    return None


def _compiles(pattern: str, options: RegexOptions | FancyRegexOptions) -> bool:
    try:
        validator_for({"pattern": pattern}, offline=True, pattern_options=options)
    except ValidationError:
        return False
    return True
