"""Which trace_id a request goes by, and which trace it is part of (contract §1, input rules)."""

import re
import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers

from mcp_tools_proxy.policy.identifiers import is_trace_id

TRACE_HEADER = "X-Trace-Id"

MAX_CONTEXT_BYTES = 8192
"""Largest ``tracestate`` or ``baggage`` that is passed on."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_PRINTABLE = re.compile(rf"[ -~]{{1,{MAX_CONTEXT_BYTES}}}")
_CONTEXT_HEADERS = frozenset({b"traceparent", b"tracestate", b"baggage"})


def trace_id_from(body: object, headers: Mapping[str, str]) -> str:
    """Take the body's trace_id, else X-Trace-Id, else traceparent's, else a new one of 32 hex.

    An unusable one counts as absent: it is also asked when the body has been refused.
    """
    given = body.get("trace_id") if isinstance(body, dict) else None
    if isinstance(given, str) and is_trace_id(given):
        return given
    header = headers.get("x-trace-id")
    if header is not None and is_trace_id(header):
        return header
    parent = headers.get("traceparent")
    if parent is not None and (match := _TRACEPARENT.fullmatch(parent)):
        return match[1]
    return secrets.token_hex(16)


def trace_context_from(headers: Headers) -> Mapping[str, str]:
    """Give the request's W3C trace headers for those that the call goes on to.

    A header sent in several lines is one list (RFC 9110 §5.3). What is not in W3C's form is left
    out, and ``tracestate`` with a ``traceparent`` that is.
    """
    found: dict[str, str] = {}
    for raw_name, value in headers.raw:
        if raw_name in _CONTEXT_HEADERS:
            name, text = raw_name.decode(), value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    if not found:
        return found
    if not _TRACEPARENT.fullmatch(found.get("traceparent", "")):
        found.pop("traceparent", None)
        found.pop("tracestate", None)
    return {name: text for name, text in found.items() if _PRINTABLE.fullmatch(text)}
