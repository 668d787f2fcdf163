"""Trace ids, W3C trace context and the forwarded ``_meta`` keys (contract §1)."""

import re
from collections.abc import Mapping

from mcp_tools_proxy.wire.identifiers import TRACE_ID_CHARS, is_trace_id

MAX_CONTEXT_BYTES = 8192
"""Maximum size of a forwarded ``tracestate`` or ``baggage``."""

TRACE_CONTEXT = frozenset({"traceparent", "tracestate", "baggage"})
"""The fields of W3C's trace context, in headers and in MCP's ``_meta``."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_TEXT_OR_NUMBER = (str, int, float)
_UNUSABLE = re.compile("[^!-~]")
_PRINTABLE = re.compile(rf"[ -~]{{1,{MAX_CONTEXT_BYTES}}}")


def choose_trace_id(*candidates: object, traceparent: object = None) -> str | None:
    """Return the first usable candidate, or the id of ``traceparent``, or None.

    Malformed trace_ids never fail a call: any text or number is accepted, with ``_`` for characters
    that logs and headers cannot carry.
    """
    for one in candidates:
        if isinstance(one, str) and is_trace_id(one):
            return one
        if is_text_or_number(one) and (spelt := _UNUSABLE.sub("_", str(one)[:TRACE_ID_CHARS])):
            return spelt
    if isinstance(traceparent, str) and (match := _TRACEPARENT.fullmatch(traceparent)):
        return match[1]
    return None


def is_text_or_number(value: object) -> bool:
    """Return whether a JSON value is text or a number (not a bool), and so can be a trace_id."""
    return isinstance(value, _TEXT_OR_NUMBER) and not isinstance(value, bool)


def valid_context(found: Mapping[str, str]) -> Mapping[str, str]:
    """Remove malformed fields, and ``tracestate`` without a valid ``traceparent``."""
    if not found:
        return found
    known = dict(found)
    if not _TRACEPARENT.fullmatch(known.get("traceparent", "")):
        known.pop("traceparent", None)
        known.pop("tracestate", None)
    return {name: text for name, text in known.items() if _PRINTABLE.fullmatch(text)}


OUR_PREFIX = "io.github.mcp-tools-proxy/"
"""Prefix of the gateway's own ``_meta`` keys, for clients and servers."""

TRACE_ID_KEY = f"{OUR_PREFIX}traceId"
"""``_meta`` key of a call's trace id, in the request to a server and in the result."""

PENDING_KEY = f"{OUR_PREFIX}pending"
"""``_meta`` key of a list: the ids of servers in their first connection attempt."""

GUARDS_KEY = f"{OUR_PREFIX}guards"
"""``_meta`` key of guards' findings in a call: ``{"findings": […]}``."""

IDEMPOTENCY_KEY = f"{OUR_PREFIX}idempotencyKey"
"""``_meta`` key of a request's idempotency key. Never forwarded: a second gateway would
attribute all callers' calls to one, and return one's outcome to another."""

DOCUMENTS_KEY = f"{OUR_PREFIX}documents"
"""``_meta`` key of the only documents that a request may use: a list of ids. Never forwarded."""

SOURCES_KEY = f"{OUR_PREFIX}sources"
"""``_meta`` key that enables sources in document tools' answers. Never forwarded."""

RUN_KEY = f"{OUR_PREFIX}run"
"""``_meta`` key of the run that a request belongs to. Never forwarded."""

REPLAYED_KEY = f"{OUR_PREFIX}replayed"
"""``_meta`` key of a result that is an earlier call's."""

BUDGET_KEY = f"{OUR_PREFIX}budget"
"""``_meta`` key of the budget with the smallest remaining share, as in the HTTP API."""

CALLER_KEY = f"{OUR_PREFIX}caller"
"""``_meta`` key of the caller, in the request to a server whose entry has ``forward``."""

_NOT_FORWARDED = frozenset({"progressToken", *TRACE_CONTEXT})
_RESERVED = re.compile(
    rf"[^./]+\.(modelcontextprotocol|mcp)(\.[^/]*)?/|modelcontextprotocol\.io/"
    rf"|{re.escape(OUR_PREFIX)}",
    re.IGNORECASE,  # a server that ignores case could take a client's caller for the gateway's
)


def forwardable_meta(meta: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a caller's ``_meta`` that is forwarded to a server.

    Excludes keys reserved by MCP (its prefixes, the progress token) and the gateway's own. Trace
    context is forwarded separately, see ``valid_context``.
    """
    return {
        key: value
        for key, value in meta.items()
        if key not in _NOT_FORWARDED and not _RESERVED.match(key)
    }
