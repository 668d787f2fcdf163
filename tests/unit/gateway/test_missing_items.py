"""Why an item of a preset is not there."""

import pytest
from structlog.testing import capture_logs

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.domain.view import View
from mcp_tools_proxy.gateway.check.missing_items import (
    MissingItems,
    explain_missing,
    log_missing_items,
)
from mcp_tools_proxy.policy.exclusions import Exclusions


def reason_of(server_id: str, name: str, kind: Kind = Kind.TOOL) -> str:
    """Return why this item is missing.

    Server ``known`` was discovered, ``late`` was not yet, ``off`` is disabled, ``bad`` is invalid.
    """
    enabled = {"known": True, "late": True, "off": False}
    view = View(
        missing=(Missing(kind=kind, server_id=server_id, name=name),),
        need_task=(("known", "long"),),
    )
    (finding,) = explain_missing(
        view,
        (),
        servers={
            it: ServerConfig(server_id=it, transport=Transport.STDIO, enabled=enabled[it])
            for it in enabled
        },
        discovered=["known"],
        exclude={"known": Exclusions(["drop"])},
        invalid=["bad"],
    )
    return finding.reason


@pytest.mark.parametrize(
    ("server_id", "name", "reason"),
    [
        ("known", "other", "the server does not offer it"),
        ("known", "drop", "mcp.json excludes it"),
        ("known", "long", "it can only be run as a task"),
        ("late", "long", "the server was not discovered yet"),
        ("off", "x", "mcp.json has no enabled server of this id"),
        ("unknown", "x", "mcp.json has no enabled server of this id"),
        ("bad", "x", "its server's entry in mcp.json has problems"),
    ],
)
def test_a_tool_is_missing_for_one_reason(server_id: str, name: str, reason: str) -> None:
    assert reason_of(server_id, name) == reason


def test_only_tools_can_need_a_task() -> None:
    assert reason_of("known", "long", Kind.PROMPT) == "the server does not offer it"


@pytest.mark.parametrize(
    ("reason", "level"),
    [("the server was not discovered yet", "info"), ("mcp.json excludes it", "warning")],
)
def test_what_may_come_yet_is_no_warning(reason: str, level: str) -> None:
    items = MissingItems(
        event="preset.missing", server_id="a", kind=Kind.TOOL, reason=reason, names=("x",)
    )
    with capture_logs() as lines:
        log_missing_items([items], preset_id="work")
    assert [line["log_level"] for line in lines] == [level]
