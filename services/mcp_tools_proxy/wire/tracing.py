"""Which trace_id a request goes by, and which trace it is part of (contract §1, input rules)."""

import re
from collections.abc import Mapping

from mcp_tools_proxy.wire.identifiers import TRACE_ID_CHARS, is_trace_id

MAX_CONTEXT_BYTES = 8192
"""Largest ``tracestate`` or ``baggage`` that is passed on."""

TRACE_CONTEXT = frozenset({"traceparent", "tracestate", "baggage"})
"""What W3C's trace context consists of, in headers and in MCP's ``_meta``."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_TEXT_OR_NUMBER = (str, int, float)
_UNUSABLE = re.compile("[^!-~]")
_PRINTABLE = re.compile(rf"[ -~]{{1,{MAX_CONTEXT_BYTES}}}")


def choose_trace_id(*given: object, traceparent: object = None) -> str | None:
    """Take the first of ``given`` that is there, else traceparent's id; None where there is none.

    No trace_id is worth a call: callers pass ids of the outside on as they are. Any text or number
    is taken, with ``_`` in the place of each character that logs and headers cannot carry.
    """
    for one in given:
        if isinstance(one, str) and is_trace_id(one):
            return one
        if is_text_or_number(one) and (spelt := _UNUSABLE.sub("_", str(one)[:TRACE_ID_CHARS])):
            return spelt
    if isinstance(traceparent, str) and (match := _TRACEPARENT.fullmatch(traceparent)):
        return match[1]
    return None


def is_text_or_number(value: object) -> bool:
    """Return whether JSON's ``value`` can be a trace_id."""
    return isinstance(value, _TEXT_OR_NUMBER) and not isinstance(value, bool)


def valid_context(found: Mapping[str, str]) -> Mapping[str, str]:
    """Leave out what is not in W3C's form, and ``tracestate`` without its ``traceparent``."""
    if not found:
        return found
    known = dict(found)
    if not _TRACEPARENT.fullmatch(known.get("traceparent", "")):
        known.pop("traceparent", None)
        known.pop("tracestate", None)
    return {name: text for name, text in known.items() if _PRINTABLE.fullmatch(text)}


OUR_PREFIX = "io.github.mcp-tools-proxy/"
"""What our own keys begin with, towards clients and servers."""

TRACE_ID_KEY = f"{OUR_PREFIX}traceId"
"""Where the trace id of a call stands, in its request to a server and in its result."""

_NOT_PASSED_ON = frozenset({"progressToken", *TRACE_CONTEXT})
_RESERVED = re.compile(
    rf"[^./]+\.(modelcontextprotocol|mcp)(\.[^/]*)?/|modelcontextprotocol\.io/"
    rf"|{re.escape(OUR_PREFIX)}"
)


def forwardable_meta(meta: Mapping[str, object]) -> dict[str, object]:
    """Give what of a caller's ``_meta`` goes on to a server.

    What MCP reserves (its prefixes, the progress token) does not, nor what is ours; W3C's trace
    context has a way of its own.
    """
    return {
        key: value
        for key, value in meta.items()
        if key not in _NOT_PASSED_ON and not _RESERVED.match(key)
    }
