"""Agents × presets × kinds × entry points × spellings: exactly the listed items are usable.

The oracle below computes both from the files and the offers and shares no code with the gateway."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.api.agent_oracle import (
    AGENTS,
    EXCLUDE,
    OFFERS,
    PRESETS,
    Item,
    may_use,
)
from tests.support.configuration import Json, make_agent
from tests.support.http_api import (
    ALL_OF_BOTH,
    EVERYTHING,
    ITEM_7,
    Listed,
    listed,
    reached,
    two_servers,
    use,
)
from tests.support.service import Service

# The oracle


class Spelling(NamedTuple):
    """A way to use an item; ``target`` is the request that its server should receive."""

    entry: str
    name: str
    target: str
    bare: bool


def spellings(item: Item) -> Iterator[Spelling]:
    kind, server, name = item
    target = ITEM_7 if kind == "template" else name
    for entry in (
        ("execute", "batch") if kind == "tool" else (kind.replace("template", "resource"),)
    ):
        yield Spelling(entry, f"{server}:{target}", target, bare=False)
        yield Spelling(entry, target, target, bare=True)
        if kind == "tool":
            yield Spelling(entry, f"{server}__{name}", name, bare=False)


def expected(item: Item, spelt: Spelling, usable: list[Item], agent: Json | None) -> str:
    kind, server, name = item
    owners = [s for k, s, n in usable if (k, n) == (kind, name)]
    if kind == "template" and agent and ITEM_7 in agent.get("exclude_components", []):
        owners = []
    if not spelt.bare:
        return f"{spelt.target} of {server}" if server in owners else "refused"
    if not owners:
        return "refused"
    return f"{spelt.target} of {owners[0]}" if len(owners) == 1 else "ambiguous"


def first_of_each(usable: list[Item], active: Json) -> list[Item]:
    """Keep the first server of each name in scope order, for callers without an agent (P-13)."""
    keys = ("tools", "prompts", "resources")
    scope = [it["serverId"] for key in keys for it in active.get(key) or ()]
    first: dict[tuple[str, str], Item] = {}
    for item in sorted(usable, key=lambda it: scope.index(it[1])):
        first.setdefault((item[0], item[2]), item)
    return [item for item in usable if item[0] == "tool" or item in first.values()]


def names_of(usable: list[Item]) -> dict[str, set[str]]:
    """Return the names that each list should show: qualified if the bare name is shared."""
    names: dict[str, set[str]] = {field: set() for field in Listed._fields}
    bare = [(kind, name) for kind, _, name in usable]
    for kind, server, name in usable:
        shared = kind == "tool" or bare.count((kind, name)) > 1
        names[f"{kind}s"].add(f"{server}:{name}" if shared else name)
    return names


# The gateway


async def outcome_of(service: Service, spelt: Spelling, agent: str | None) -> str:
    envelope = await use(service, spelt.entry, spelt.name, agent)
    if envelope["status"] == "ok":
        return await reached(service, spelt.entry, spelt.name, agent)
    code = envelope["error"]["code"]
    refused = code.endswith(("_NOT_ALLOWED", "_NOT_FOUND"))
    return "refused" if refused else "ambiguous" if code == "AMBIGUOUS_NAME" else code


@pytest.mark.requirement("A-10", "A-13", "A-14")
@pytest.mark.parametrize("active", PRESETS, ids=lambda preset: preset["id"])
async def test_exactly_the_listed_items_can_be_used_and_both_match_the_files(active: Json) -> None:
    presets = [active, *(preset for preset in PRESETS if preset is not active)]
    async with two_servers(*AGENTS, exclude=EXCLUDE, presets=presets, require_agent=False) as two:
        for agent in (None, *AGENTS):
            name = None if agent is None else agent["name"]
            usable = may_use(active, agent)
            if agent is None:
                usable = first_of_each(usable, active)
            seen = (await listed(two.service, name))._asdict()
            assert (name, {field: set(names) for field, names in seen.items()}) == (
                name,
                names_of(usable),
            )
            shown = await two.service.result("list_available_tools", agent=name)
            assert [it for it in shown["tools"] if ":" in it] == seen["tools"]
            ways = [(item, spelt) for item in OFFERS for spelt in spellings(item)]
            happened = {s[:2]: await outcome_of(two.service, s, name) for _, s in ways}
            assert (name, happened) == (
                name,
                {s[:2]: expected(item, s, usable, agent) for item, s in ways},
            )


def test_the_oracle_allows_everything_when_nothing_is_excluded() -> None:
    assert {item[1] for item in may_use(EVERYTHING, make_agent())} == {"a", "a-b"}
    assert len(may_use(EVERYTHING, make_agent())) == sum(map(len, ALL_OF_BOTH)) - 1
