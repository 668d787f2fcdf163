"""Where an HTTP request has its trace_id and trace context; ``wire.tracing`` has the rules."""

import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers

from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT, choose_trace_id, valid_context

TRACE_HEADER = "X-Trace-Id"

_CONTEXT_HEADERS = frozenset(name.encode() for name in TRACE_CONTEXT)


def trace_id_from(body: object, headers: Mapping[str, str]) -> str:
    """Take the body's trace_id, else X-Trace-Id, else traceparent's, else a new one of 32 hex.

    What is no text and no number counts as absent: this is also asked of a body that is refused.
    """
    value = body.get("trace_id") if isinstance(body, dict) else None
    parent = headers.get("traceparent")
    return choose_trace_id(value, trace_header(headers), traceparent=parent) or new_trace_id()


def trace_header(headers: Mapping[str, str]) -> str | None:
    """Return X-Trace-Id, which may be UTF-8; frameworks take every header for Latin-1."""
    value = headers.get("x-trace-id")
    if value is None or value.isascii():
        return value and value.strip(" \t")
    return value.strip(" \t").encode("latin-1", "replace").decode(errors="replace")


def new_trace_id() -> str:
    """Make a trace_id of 32 hex."""
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
    return valid_context(found)
