"""Idempotency keys of the HTTP API: where a request has one, and what it means for a disconnect."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import RequestContext
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.web.disconnect import cancel_on_disconnect
from mcp_tools_proxy.wire.identifiers import IDEMPOTENCY_KEY_RULE, is_idempotency_key

T = TypeVar("T")

IDEMPOTENCY_HEADER = "Idempotency-Key"
_RAW_NAME = IDEMPOTENCY_HEADER.lower().encode()


def idempotency_key_of(parsed: ParsedRequest[RequestContext], of_body: str | None) -> str | None:
    """Return the key of a request, whose body has ``of_body``.

    Raises InvalidRequest for a header that is malformed, repeated, or another key than the body's.
    """
    values = [value for name, value in parsed.request.headers.raw if name == _RAW_NAME]
    if not values:
        return of_body
    if len(values) > 1:
        raise _invalid("is given twice; keep one")
    key = values[0].strip(b" \t").decode(errors="surrogateescape")
    if not is_idempotency_key(key):
        raise _invalid(IDEMPOTENCY_KEY_RULE)
    if of_body not in (None, key):
        raise _invalid("differs from the body's idempotency_key; send only one of them")
    return key


def key_in_batch(of_batch: str | None, place: int) -> str | None:
    """Return the key of a call whose batch has a key: the batch's, and its place.

    No other key is the same: none that a caller sends holds a control character.
    """
    return None if of_batch is None else f"{of_batch}\0{place}"


async def carry_out(
    parsed: ParsedRequest[RequestContext], work: Awaitable[T], calls: Sequence[Call]
) -> T:
    """Return what ``work`` returns; cancel it when the caller hangs up.

    A call with an idempotency key is carried to its end: its caller comes back for the outcome.
    """
    for call in calls:
        if call.idempotency_key is not None:
            return await work
    return await cancel_on_disconnect(parsed.request.receive, work)


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(f"{IDEMPOTENCY_HEADER}: {problem}", details={"field": IDEMPOTENCY_HEADER})
