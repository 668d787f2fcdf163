"""How ``check`` prints what it found."""

from io import StringIO

from rich.console import Console

from mcp_tools_proxy.cli_check import show
from mcp_tools_proxy.domain.server import ServerState, ServerStatus, Transport
from mcp_tools_proxy.gateway.inspection import Findings

REASON = "HTTP status 403: the server forbids it to these credentials; see its headers in mcp.json"


def test_a_narrow_terminal_breaks_no_word_of_a_server_or_its_failure() -> None:
    servers = (
        ServerStatus(
            server_id="notes",
            state=ServerState.READY,
            transport=Transport.STREAMABLE_HTTP,
            era="2026-07-28",
            counts={"tools": 30, "prompts": 1, "resources": 2, "resource_templates": 1},
            connect_s=0.0306,
        ),
        ServerStatus(
            server_id="tickets",
            state=ServerState.CONNECTING,
            transport=Transport.WEBSOCKET,
            last_error=REASON,
        ),
    )
    findings = Findings(
        servers=servers, offers=(), dropped=(), presets=(), problems=(), warnings=()
    )
    out = StringIO()
    show(findings, Console(file=out, width=80), offers=True)
    words = ["streamable-http", "2026-07-28", "30 tools", "template", "31", "failed", REASON]
    assert [word for word in words if word not in out.getvalue()] == []
