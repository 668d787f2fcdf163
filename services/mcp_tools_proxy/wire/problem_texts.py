"""Messages about invalid input for its sender; they never quote input values.

Also truncated lists, and the "did you mean" hint for unknown names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TypeVar

from pydantic_core import ErrorDetails

from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote

MAX_PROBLEMS = 5
ItemT = TypeVar("ItemT")
EntryT = TypeVar("EntryT")

TEXTS = {
    "missing": "is missing",
    "string_pattern_mismatch": "holds a character that is not allowed",
    "json_invalid": "is not valid JSON",
    "model_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
    "list_type": "should be a JSON list",
    "extra_forbidden": "is not a known key",
    "int_parsing": "should be an integer",
    "float_parsing": "should be a number",
    "bool_parsing": "should be true or false",
    "too_short": "should have {min_length} items or more",
    "too_long": "should have {max_length} items or fewer",
}
"""Replacements for pydantic's messages, by error type, with values of ``ctx``."""


def join_first(
    items: Sequence[ItemT],
    describe: Callable[[ItemT], str] = str,
    *,
    limit: int = MAX_PROBLEMS,
    separator: str = "; ",
    more: str = "; and {} more",
) -> str:
    """Join the texts of the first items; ``more`` is appended with the number of the others."""
    left_out = len(items) - limit
    listed = separator.join(map(describe, items[:limit]))
    return listed + more.format(left_out) if left_out > 0 else listed


def first_of(
    items: Sequence[ItemT],
    limit: int,
    describe: Callable[[ItemT], EntryT],
    more: Callable[[int], EntryT],
) -> tuple[EntryT, ...]:
    """Describe the first items; ``more`` builds an entry from the number of the others."""
    left_out = len(items) - limit
    first = tuple(map(describe, items[:limit]))
    return (*first, more(left_out)) if left_out > 0 else first


def place_of(error: ErrorDetails | Mapping[str, object], *, whole: str) -> str:
    """Return the path of a problem: ``user.tenant_id``, ``calls.0``; ``whole`` for the root."""
    loc = error["loc"]
    parts = loc if isinstance(loc, tuple) else ()
    return ".".join(str(part)[:QUOTE_CHARS] for part in parts) or whole


def problem_of(error: ErrorDetails | Mapping[str, object]) -> str:
    """Return a short description of the problem, to follow the place in a message."""
    if text := TEXTS.get(str(error["type"])):
        context = error.get("ctx")
        return text.format_map(context) if isinstance(context, Mapping) else text
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]


COMPARED_NAMES = 50
COMPARED_CHARS = 64
"""Numbers of known names and of characters that are compared with an unknown name."""


def closest_match(
    name: str, known: Iterable[str], *, least: float = 0.6, most_names: int = COMPARED_NAMES
) -> str | None:
    """Return the known name most similar to ``name``; None if no name is similar enough.

    ``least`` is the minimum similarity (1 is equality). Only the first ``most_names`` short names
    are compared, which bounds the time.
    """
    short = (candidate for candidate in known if len(candidate) <= COMPARED_CHARS)
    close = get_close_matches(name[:COMPARED_CHARS], islice(short, most_names), n=1, cutoff=least)
    return close[0] if close else None


def did_you_mean(match: str | None, otherwise: str = "") -> str:
    """Return the end of a message about an unknown name: a suggestion or ``otherwise``."""
    return f"; did you mean {quote(match)}?" if match else otherwise
