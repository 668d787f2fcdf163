from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Missing, Preset, Reference
from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers import InvalidItem, Snapshot, View
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.unmatched_items import explain_missing
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Offers, PresetScope, Why
from tests.support.tables import each_row

TASK = InvalidItem(kind=Kind.TOOL, name="long", reason="it is a task", needs_task=True)
WRONG = InvalidItem(kind=Kind.TOOL, name="odd", reason="its name is a number")

KNOWN = Snapshot(
    tools={it: {} for it in ("ok", "bound", "locked", "guarded", "duplicate", "outside")},
    prompts={"second": {}},
    templates={"x://{id}": {}},
    dropped=(TASK, WRONG),
)

STATES = {
    "off": ServerState.DISABLED,
    "bad": ServerState.INVALID,
    "new": ServerState.CONNECTING,
    "down": ServerState.UNREACHABLE,
    "odd": ServerState.FAILED,
    "closed": ServerState.LOGIN_REQUIRED,
}

NAMED = ("ok", "other", "drop", "long", "odd", "bound", "locked", "guarded", "duplicate", "x")


def offers() -> Offers:
    """Build the offers of a preset that lists NAMED of each server; ``known`` has the others."""
    servers = ("known", "typo", *STATES)
    tools = tuple(Reference(server_id=it, name=name) for it in servers for name in NAMED)
    preset = Preset(preset_id="p", name="P", tools=tools)
    return Offers(
        scope=PresetScope.of(preset),
        servers={"known", *STATES},
        exclude={"known": Exclusions(["drop"])},
        snapshots={"known": KNOWN},
        statuses=lambda: {
            it: ServerStatus(server_id=it, state=state, transport=None, reason=f"{it} it is")
            for it, state in STATES.items()
        },
        unbound=frozenset({DefinitionKey("known", DefinitionKind.TOOL, "bound")}),
        quarantined=frozenset({DefinitionKey("known", DefinitionKind.TOOL, "locked")}),
        guarded={
            DefinitionKey("known", DefinitionKind.TOOL, "guarded"): RuleSource("mcp.json", "$")
        },
        shadowed={(Kind.PROMPT, "known", "second"): "first"},
        taken=frozenset({("known", "duplicate")}),
    )


@each_row(
    ("server_id", "name", "why", "text"),
    [
        ("known", "other", Why.NOT_OFFERED, 'server "known" does not offer this tool'),
        ("known", "drop", Why.EXCLUDED, "mcp.json excludes it"),
        ("known", "outside", Why.NOT_IN_PRESET, "not visible under the active preset"),
        ("known", "locked", Why.QUARANTINED, "quarantined: "),
        ("known", "guarded", Why.GUARDED, "hidden by a guard: "),
        ("known", "bound", Why.CANNOT_BIND, "an argument of it cannot be bound"),
        ("known", "duplicate", Why.NAME_TAKEN, "its name or alias is taken"),
        ("known", "long", Why.NEEDS_TASK, 'the tool that server "known" lists is not usable: it'),
        ("known", "odd", Why.INVALID, 'the tool that server "known" lists is not usable: its'),
        ("down", "x", Why.SERVER_UNREACHABLE, "server down is unavailable: down it is"),
        ("odd", "x", Why.SERVER_FAILED, "server odd is unavailable: odd it is"),
        ("closed", "x", Why.LOGIN_REQUIRED, "server closed is unavailable: closed it is"),
        ("new", "x", Why.SERVER_CONNECTING, "server new is unavailable: new it is"),
        ("off", "x", Why.SERVER_DISABLED, "server off is unavailable: it is disabled in mcp.json"),
        ("bad", "x", Why.SERVER_INVALID, "server bad is unavailable: its entry in mcp.json is"),
        ("down", "nosuch", Why.NOT_IN_PRESET, "not visible under the active preset"),
        ("typo", "x", Why.NO_SERVER, 'server "typo" is not in mcp.json'),
    ],
)
def test_an_unavailable_tool_has_one_reason(server_id: str, name: str, why: Why, text: str) -> None:
    reason = offers().reason(Kind.TOOL, server_id, name)
    assert reason is not None
    assert (reason.why, reason.text.startswith(text)) == (why, True), reason


def test_an_available_item_does_not_have_a_reason() -> None:
    assert offers().reason(Kind.TOOL, "known", "ok") is None


def test_prompts_and_templates_have_reasons_too() -> None:
    found = [
        offers().reason(Kind.PROMPT, "known", "second"),
        offers().reason(Kind.PROMPT, "known", "long"),
        offers().reason(Kind.RESOURCE, "known", "x://{id}"),
        offers().reason(Kind.RESOURCE, "known", "y://1"),
    ]
    assert [it and it.why for it in found] == [Why.SHADOWED, Why.NOT_OFFERED, None, Why.NOT_OFFERED]


def test_missing_items_are_grouped_by_reason_without_pending_servers() -> None:
    named = [("known", "other"), ("known", "nor"), ("down", "x"), ("new", "x")]
    view = View(missing=tuple(Missing(kind=Kind.TOOL, server_id=s, name=n) for s, n in named))
    groups = explain_missing(view, (), offers(), pending=["new"])
    assert [(it.server_id, it.names, it.reason.why) for it in groups] == [
        ("known", ("other", "nor"), Why.NOT_OFFERED),
        ("down", ("x",), Why.SERVER_UNREACHABLE),
    ]
