"""Reads the trace_id and trace context of an HTTP request; ``wire.tracing`` has the rules."""

import random
from collections.abc import Mapping

from starlette.datastructures import Headers

from mcp_tools_proxy.telemetry.spans import current_trace_id
from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT, choose_trace_id, valid_context

TRACE_HEADER = "X-Trace-Id"

_TRACE_ID_HEADERS = frozenset({b"x-trace-id", b"traceparent"})
_CONTEXT_HEADERS = frozenset(name.encode() for name in TRACE_CONTEXT)


def trace_id_from(body: object, headers: Headers) -> str:
    """Return the body's trace_id, else X-Trace-Id, else traceparent's, else a new one.

    A value that is neither string nor number counts as absent: refused bodies get here too.
    """
    if isinstance(body, dict) and "trace_id" in body:
        chosen = choose_trace_id(body["trace_id"])
        if chosen is not None:
            return chosen
    for name, _ in headers.raw:  # most requests have neither: two look-ups would take longer
        if name in _TRACE_ID_HEADERS:
            parent = headers.get("traceparent")
            return choose_trace_id(trace_header(headers), traceparent=parent) or new_trace_id()
    return new_trace_id()


def trace_header(headers: Mapping[str, str]) -> str | None:
    """Return X-Trace-Id, which may be UTF-8: Starlette decodes every header as Latin-1."""
    value = headers.get("x-trace-id")
    if value is None or value.isascii():
        return value and value.strip(" \t")
    return value.strip(" \t").encode("latin-1", "replace").decode(errors="replace")


def new_trace_id() -> str:
    """Return that of the current trace, else create one; either has 32 hex digits."""
    # not a secret, and the system's random bytes take a twentieth of a call
    return current_trace_id() or f"{random.getrandbits(128):032x}"


def trace_context_from(headers: Headers) -> Mapping[str, str]:
    """Return the request's W3C trace headers, to be sent on to servers.

    A header in several lines is one list (RFC 9110 §5.3). Values that are not in W3C's form are
    left out, and so is ``tracestate`` without a valid ``traceparent``.
    """
    found: dict[str, str] = {}
    for raw_name, value in headers.raw:
        if raw_name in _CONTEXT_HEADERS:
            name, text = raw_name.decode(), value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return valid_context(found)
