"""Why an item of a preset is not there."""

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.offers.view import View
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.gateway.check.missing_items import explain_missing
from mcp_tools_proxy.policy.exclusions import Exclusions


def reason_of(server_id: str, name: str, kind: Kind = Kind.TOOL) -> str:
    """Return why this item is missing.

    Server ``known`` was discovered, ``down`` was not, ``off`` is disabled, ``bad`` is invalid.
    """
    enabled = {"known": True, "down": True, "off": False}
    view = View(
        missing=(Missing(kind=kind, server_id=server_id, name=name),),
        need_task=(("known", "long"),),
    )
    (items,) = explain_missing(
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
    return items.reason


@pytest.mark.parametrize(
    ("server_id", "name", "reason"),
    [
        ("known", "other", "the server does not offer it"),
        ("known", "drop", "mcp.json excludes it"),
        ("known", "long", "it can only be run as a task"),
        ("down", "long", "its server is not connected"),
        ("off", "x", "mcp.json has no enabled server of this id"),
        ("unknown", "x", "mcp.json has no enabled server of this id"),
        ("bad", "x", "its server's entry in mcp.json has problems"),
    ],
)
def test_a_tool_is_missing_for_one_reason(server_id: str, name: str, reason: str) -> None:
    assert reason_of(server_id, name) == reason


def test_only_tools_can_need_a_task() -> None:
    assert reason_of("known", "long", Kind.PROMPT) == "the server does not offer it"


def test_an_item_of_a_server_that_was_not_tried_yet_is_not_missing_yet() -> None:
    view = View(missing=(Missing(kind=Kind.TOOL, server_id="new", name="x"),))
    servers = {"new": ServerConfig(server_id="new", transport=Transport.STDIO)}
    found = [
        explain_missing(view, (), servers=servers, discovered=[], exclude={}, pending=pending)
        for pending in (["new"], [])
    ]
    assert [[it.reason for it in groups] for groups in found] == [
        [],
        ["its server is not connected"],
    ]
