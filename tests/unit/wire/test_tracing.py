"""Which keys of a caller's ``_meta`` go on to a server."""

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
def test_what_mcp_reserves_and_what_is_ours_is_not_passed_on(key: str) -> None:
    assert forwardable_meta({key: "theirs"}) == {}
