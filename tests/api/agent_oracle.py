"""Expected access of agents, computed directly from the files; shares no code with the gateway."""

from tests.support.configuration import Json, make_agent, make_preset
from tests.support.http_api import (
    EVERYTHING,
    ITEM,
    ITEM_7,
    OWN,
    TEXT,
)

OFFERS = [
    (kind, server, name)
    for server, own in OWN.items()
    for kind, names in {
        "tool": ["whoami", own],
        "prompt": ["greet", "plain", own],
        "resource": [TEXT, f"raw://{own}"],
        "template": [ITEM],
    }.items()
    for name in names
]
"""Everything that the servers offer, as (kind, server, name)."""
Item = tuple[str, str, str]
EXCLUDE = {"a-b": ["prompt:plain", "a:greet"]}
"""Excluded in mcp.json; the second entry names another server and does nothing."""
PRESETS = [
    EVERYTHING,
    make_preset("reverse", tools=[("a-b", "whoami"), ("a", "whoami")], resources=[]),
    make_preset("one", tools=[("a", "alpha")], prompts=[("a-b", "greet"), ("a", "plain")]),
    make_preset("read", prompts=[], resources=[("a-b", TEXT), ("a", ITEM), ("a-b", ITEM)]),
]
AGENTS = [
    make_agent("all"),
    make_agent("of_a", client_ids=["a"]),
    make_agent("of_a_b", client_ids=["a-b"]),
    make_agent("of_none", client_ids=[]),
    make_agent("by_name", exclude=["whoami", "alpha", TEXT, ITEM_7]),
    make_agent("by_kind", exclude=["tool:alpha", "prompt:a-b:greet", "resource:alpha", "a:whoami"]),
    make_agent("by_preset", preset="one"),
    make_agent("by_all", client_ids=["a", "a-b"], exclude=[f"a:{ITEM}", "greet"], preset="reverse"),
    make_agent("by_nothing", preset="nowhere"),
]


def allows(preset: Json | None, item: Item) -> bool:
    if preset is None:
        return False
    named = {("tool", it["serverId"], it["toolName"]) for it in preset["tools"]}
    prompts, resources = preset.get("prompts"), preset.get("resources")
    named |= {("prompt", it["serverId"], it["promptName"]) for it in prompts or ()}
    named |= {("resource", it["serverId"], it["resourceKey"]) for it in resources or ()}
    in_scope = {server for _, server, _ in named}
    kind, server, name = item
    kind = "resource" if kind == "template" else kind
    is_open = {"tool": False, "prompt": prompts is None, "resource": resources is None}[kind]
    return server in in_scope if is_open else (kind, server, name) in named


def excludes(entries: list[str], item: Item) -> bool:
    kind, server, name = item
    kind = "resource" if kind == "template" else kind
    spelt = {name, f"{server}:{name}"}
    spelt |= {f"{kind}:{it}" for it in spelt}
    return bool(spelt & set(entries))


def may_use(active: Json, agent: Json | None) -> list[Item]:
    """Return the items that the files allow an agent, or a caller without an agent."""
    left = [item for item in OFFERS if allows(active, item)]
    left = [item for item in left if not excludes(EXCLUDE.get(item[1], []), item)]
    if agent is None:
        return left
    if "client_ids" in agent:
        left = [item for item in left if item[1] in agent["client_ids"]]
    if "preset" in agent:
        preset = next((it for it in PRESETS if it["id"] == agent["preset"]), None)
        left = [item for item in left if allows(preset, item)]
    return [item for item in left if not excludes(agent.get("exclude_components", []), item)]
