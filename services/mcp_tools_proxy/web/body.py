"""Reading a request body within its limits, as strict JSON."""

import asyncio
import re
from itertools import accumulate

from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from mcp_tools_proxy.domain.errors import InvalidRequest, PayloadTooLarge
from mcp_tools_proxy.policy.numbers import may_overflow, without_infinity

BODY = "body"
"""What is named as the field of a request when its body is not JSON as it should be."""

MAX_DEPTH = 64
"""Deepest nesting of a request's JSON."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEPS)

DISCARD_MAX_BYTES = 64 * 1024 * 1024
DISCARD_MAX_S = 5.0
"""How much, and how long, of a body that is too large is still read before it is answered."""


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """Read the whole body. Raises PayloadTooLarge over ``max_bytes``, ClientDisconnect."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= max_bytes:
        chunk, more = await _next_chunk(receive)
        chunks.append(chunk)
        size += len(chunk)
    if size > max_bytes:
        chunks.clear()
        if more:
            await _discard(receive, size)
        raise PayloadTooLarge(
            f"the request body is over {max_bytes} bytes", details={"max_request_bytes": max_bytes}
        )
    return b"".join(chunks)


def parse_json(data: bytes) -> object:
    """Parse strict UTF-8 JSON: no NaN, Infinity, 1e400 or lone surrogates, at most 64 levels.

    Raises InvalidRequest.
    """
    try:
        value: object = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise InvalidRequest(
            f"the body is not valid JSON: {error}", details={"field": BODY}
        ) from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise InvalidRequest(
            f"the body is nested deeper than {MAX_DEPTH} levels", details={"field": BODY}
        )
    if may_overflow(data) and without_infinity(value) != value:
        raise InvalidRequest("the body holds a number beyond 1e308", details={"field": BODY})
    return value


async def _next_chunk(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def _discard(receive: Receive, size: int) -> None:
    """Read on, so that the client gets to its answer instead of a broken pipe."""
    try:
        async with asyncio.timeout(DISCARD_MAX_S):
            more = True
            while more and size <= DISCARD_MAX_BYTES:
                chunk, more = await _next_chunk(receive)
                size += len(chunk)
    except TimeoutError:
        return


def _depth(data: bytes) -> int:
    """Measure how deep valid JSON is nested, by its brackets outside of strings."""
    brackets = _STRING.sub(b"", data).translate(None, delete=_NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)))
