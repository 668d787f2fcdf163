"""What is wrong with an input, told to its sender; never the input's own value."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pydantic_core import ErrorDetails

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


def told_first(problems: Sequence[ProblemT], tell: Callable[[ProblemT], str]) -> str:
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
