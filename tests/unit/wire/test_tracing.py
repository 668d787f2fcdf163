"""Keys of a caller's ``_meta`` that are passed on to a server."""

import pytest

from mcp_tools_proxy.wire.tracing import TRACE_ID_KEY, forwardable_meta
from tests.support.tables import each_row


@pytest.mark.requirement("W-12")
@each_row("key", ["plain", "com.example/a", "com.example.mcp/a", "mcpish/a", "progressTokens"])
def test_a_callers_own_key_is_passed_on(key: str) -> None:
    assert forwardable_meta({key: [1]}) == {key: [1]}


@pytest.mark.requirement("W-12")
@each_row(
    "key",
    [
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol.api/x",
        "modelcontextprotocol.io/x",
        "dev.mcp/x",
        "progressToken",
        "traceparent",
        TRACE_ID_KEY,
    ],
)
def test_keys_reserved_by_mcp_or_the_gateway_are_not_passed_on(key: str) -> None:
    assert forwardable_meta({key: "theirs"}) == {}
