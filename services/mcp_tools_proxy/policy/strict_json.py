"""JSON as every entry takes it: nothing that some reader behind could take for something else."""

import re
from itertools import accumulate

from pydantic_core import from_json

from mcp_tools_proxy.policy.numbers import may_overflow, without_infinity

MAX_DEPTH = 64
"""Deepest nesting."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEPS)


def parse_strict(data: bytes) -> object:
    """Parse strict UTF-8 JSON: no NaN, Infinity, 1e400 or lone surrogates, at most 64 levels.

    Raises ValueError, which says what is wrong as in "is not valid JSON: …".
    """
    try:
        value: object = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")
    if may_overflow(data) and without_infinity(value) != value:
        raise ValueError("holds a number beyond 1e308")
    return value


def _depth(data: bytes) -> int:
    """Measure how deep valid JSON is nested, by its brackets outside of strings."""
    brackets = _STRING.sub(b"", data).translate(None, delete=_NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)))
