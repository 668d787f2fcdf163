"""The keys of MCP's ``_meta``: which are ours, and which of a caller's go on to a server (W-12)."""

import re
from collections.abc import Mapping

from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT

OUR_PREFIX = "io.github.mcp-tools-proxy/"
"""What our own keys begin with, towards clients and servers."""

TRACE_ID_KEY = f"{OUR_PREFIX}traceId"
"""Where the trace id of a call stands, in its request to a server and in its result."""

_NOT_PASSED_ON = frozenset({"progressToken", *TRACE_CONTEXT})
_RESERVED = re.compile(
    rf"[^./]+\.(modelcontextprotocol|mcp)(\.[^/]*)?/|modelcontextprotocol\.io/"
    rf"|{re.escape(OUR_PREFIX)}"
)


def passed_on(meta: Mapping[str, object]) -> dict[str, object]:
    """Give what of a caller's ``_meta`` goes on to a server.

    What MCP reserves (its prefixes, the progress token) does not, nor what is ours; W3C's trace
    context has a way of its own.
    """
    return {
        key: value
        for key, value in meta.items()
        if key not in _NOT_PASSED_ON and not _RESERVED.match(key)
    }
