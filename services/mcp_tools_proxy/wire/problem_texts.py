"""What is wrong with an input, told to its sender; never the input's own value."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TypeVar

from pydantic_core import ErrorDetails

from mcp_tools_proxy.wire.text import quote

MAX_PROBLEMS = 5
"""How many problems one message tells."""

ProblemT = TypeVar("ProblemT")

_TEXTS = {
    "missing": "is missing",
    "string_pattern_mismatch": "holds a character that is not allowed",
    "json_invalid": "is not valid JSON",
    "model_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
}


def join_first(problems: Sequence[ProblemT], tell: Callable[[ProblemT], str]) -> str:
    """Tell the first problems, each in the words of ``tell``, and how many more there are."""
    left_out = len(problems) - MAX_PROBLEMS
    told = "; ".join(tell(problem) for problem in problems[:MAX_PROBLEMS])
    return f"{told}; and {left_out} more" if left_out > 0 else told


def place_of(error: ErrorDetails | Mapping[str, object], *, whole: str) -> str:
    """Spell where the problem is: ``user.tenant_id``, ``calls.0``; ``whole`` when everywhere."""
    loc = error["loc"]
    parts = loc if isinstance(loc, tuple) else ()
    return ".".join(str(part)[:128] for part in parts) or whole


def problem_of(error: ErrorDetails | Mapping[str, object]) -> str:
    """Say what is wrong in a few words, to stand after the place."""
    if text := _TEXTS.get(str(error["type"])):
        return text
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


COMPARED_NAMES = 50
COMPARED_CHARS = 64
"""How many known names a wrong one is compared with, and how much of it."""


def closest_match(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Give the known name that is spelt most like ``name``, None when none is like it.

    ``least`` is how like it has to be, where 1 is the same.
    Only the first names of many are compared, and none that is long, so that a wrong name costs
    little.
    """
    short = (candidate for candidate in known if len(candidate) <= COMPARED_CHARS)
    close = get_close_matches(
        name[:COMPARED_CHARS], islice(short, COMPARED_NAMES), n=1, cutoff=least
    )
    return close[0] if close else None


def did_you_mean(meant: str | None, otherwise: str = "") -> str:
    """Give the end of a message about a wrong name: what was meant, else ``otherwise``."""
    return f"; did you mean {quote(meant)}?" if meant else otherwise
