"""What is wrong with an input, told to its sender; never the input's own value."""

from collections.abc import Mapping

from pydantic_core import ErrorDetails

_TEXTS = {
    "missing": "is missing",
    "string_pattern_mismatch": "holds a character that is not allowed",
    "json_invalid": "is not valid JSON",
    "model_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
}


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
