"""Mends JSON from elsewhere that cannot be encoded again."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

MAX_DEPTH = 100
"""Levels of nesting that are kept of a value that cannot be encoded as it is."""


def encodable(value: object) -> Any:
    """Return ``value`` itself if it can be encoded as JSON, else a copy that can.

    Lone surrogates become U+FFFD, and values nested too deeply become a short text.
    """
    try:
        to_json(value)
    except ValueError:
        return _mended(value, MAX_DEPTH)
    return value


def _mended(value: object, depth: int) -> object:
    if not depth:
        return "(nested too deeply)"
    match value:
        case str():
            return value.encode(errors="surrogatepass").decode(errors="replace")
        case Mapping():
            return {_mended(k, depth): _mended(v, depth - 1) for k, v in value.items()}
        case list():
            return [_mended(item, depth - 1) for item in value]
        case _:
            return value
