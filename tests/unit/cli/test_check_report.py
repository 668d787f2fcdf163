from dataclasses import replace
from io import StringIO

from rich.console import Console

from mcp_tools_proxy.cli.check_report import print_report
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import AgentProfile
from mcp_tools_proxy.domain.offers import Ignored, InvalidItem
from mcp_tools_proxy.domain.server import ServerState, ServerStatus, Transport
from mcp_tools_proxy.gateway.check.agent_views import (
    AgentReport,
    AgentView,
    VisibleItem,
)
from mcp_tools_proxy.gateway.check.report import CheckReport

REASON = "HTTP status 403: these credentials have no access; check its headers in mcp.json"

NOTHING = CheckReport(
    servers=(), offers=(), dropped=(), ignored=(), presets=(), problems=(), warnings=()
)


def shown(report: CheckReport, *, width: int = 200) -> str:
    out = StringIO()
    print_report(report, Console(file=out, width=width), offers=True)
    return out.getvalue()


def of_agent(name: str, **limits: tuple[str, ...]) -> AgentReport:
    """Build the report of an agent that sees nothing."""
    profile = AgentProfile(name=name, server_ids=limits.get("server_ids"))
    return AgentReport(profile=profile, tools=(), prompts=(), resources=(), templates=(), tokens=0)


def test_a_narrow_terminal_does_not_break_words_of_a_server_or_its_failure() -> None:
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
    out = shown(replace(NOTHING, servers=servers), width=80)
    words = ["streamable-http", "2026-07-28", "30 tools", "template", "31", "failed", REASON]
    assert [word for word in words if word not in out] == []


def test_each_of_very_many_agents_has_one_line() -> None:
    ids = tuple(f"server-{index}" for index in range(100))
    agents = tuple(of_agent(f"agent-{index}", server_ids=ids) for index in range(200))
    lines = shown(replace(NOTHING, agents=agents)).splitlines()
    assert len([line for line in lines if "and 95 more" in line]) == len(agents)


def test_control_sequences_are_escaped() -> None:
    evil = "\x1b[31mred\u202e"
    report = replace(
        NOTHING,
        agents=(of_agent(evil, server_ids=(evil,)),),
        agent_view=AgentView(
            agent=evil, visible=(VisibleItem(kind=Kind.PROMPT, name=evil, alias=""),), hidden=()
        ),
    )
    out = shown(report)
    assert (out.count(r"\x1b[31mred\u202e"), evil in out) == (4, False)


def test_unusable_and_ignored_items_are_shown_with_the_reason() -> None:
    dropped = (("s1", InvalidItem(kind=Kind.TOOL, name="bad", reason="it has no name")),)
    ignored = (("s1", Ignored(kind=Kind.PROMPT, name="p", fields=("title", "icons[0]"))),)
    report = replace(NOTHING, dropped=dropped, ignored=ignored)
    printed = " ".join(shown(report).split())
    assert "Unusable: " in printed
    assert "s1 tool bad it has no name" in printed
    assert "s1 prompt p title, icons[0]" in printed
    assert "Failed: 1 unusable item." in printed


def test_ignored_fields_and_tools_that_require_a_task_are_not_errors() -> None:
    needs_task = InvalidItem(kind=Kind.TOOL, name="t", reason="as a task", needs_task=True)
    ignored = Ignored(kind=Kind.TOOL, name="a", fields=("title",))
    report = replace(NOTHING, dropped=(("s1", needs_task),), ignored=(("s1", ignored),))
    printed = shown(report)
    assert ("as a task" in printed, "title" in printed, report.good) == (True, True, True)
