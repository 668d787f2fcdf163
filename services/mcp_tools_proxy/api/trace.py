"""Which trace_id a request goes by (contract §1, input rules)."""

import re
import secrets
from collections.abc import Mapping

from mcp_tools_proxy.policy.identifiers import is_trace_id

TRACE_HEADER = "X-Trace-Id"

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


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
