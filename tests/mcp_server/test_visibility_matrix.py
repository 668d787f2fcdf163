"""Exactly the listed items can be used, for all tenants, agents, entries, eras and kinds.

The tables below were written by hand from the files; they share no code with the gateway.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mcp_server.entries import WAYS, Entry, Used, Who, entered
from tests.support.configuration import make_agent, make_preset, write_json
from tests.support.http_api import EVERYTHING, ITEM, ITEM_7, TEXT, Listed
from tests.support.local_tools import LISTED_TOOLS
from tests.support.mcp_endpoint import Served, in_front_of_two

ways = pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id="-".join(way), marks=[pytest.mark.e2e] if way[0] == "stdio" else [])
        for way in WAYS
    ],
)

TENANTS = ("tenant_1", "tenant_2")
NARROW = make_preset(
    "narrow",
    tools=[("a", "whoami"), ("a", "alpha"), ("a-b", "whoami")],
    prompts=[("a", "greet"), ("a", "plain"), ("a-b", "beta")],
    resources=[("a", TEXT), ("a", ITEM), ("a-b", "raw://beta")],
)
AGENTS = (
    make_agent("narrowed", preset="narrow", exclude=["a:whoami", "prompt:plain"]),
    make_agent("of_b", client_ids=["a-b"], exclude=[TEXT, "read_doc_pages", "whoami"]),
)
PAGES = "read_doc_pages"
DOCUMENTS = {*LISTED_TOOLS} - {"list_available_tools"}
LOCAL = {"narrowed": DOCUMENTS, "of_b": DOCUMENTS - {PAGES}}

OFFERS = [
    ("tool", "a", "whoami"), ("tool", "a", "alpha"),
    ("tool", "a-b", "whoami"), ("tool", "a-b", "beta"),
    ("prompt", "a", "greet"), ("prompt", "a", "plain"), ("prompt", "a", "alpha"),
    ("prompt", "a-b", "greet"), ("prompt", "a-b", "plain"), ("prompt", "a-b", "beta"),
    ("resource", "a", TEXT), ("resource", "a", "raw://alpha"),
    ("resource", "a-b", TEXT), ("resource", "a-b", "raw://beta"),
    ("template", "a", ITEM), ("template", "a-b", ITEM),
]  # fmt: skip
USABLE = {
    "narrowed": {
        ("tool", "a", "alpha"), ("tool", "a-b", "whoami"),
        ("prompt", "a", "greet"), ("prompt", "a-b", "beta"),
        ("resource", "a", TEXT), ("resource", "a-b", "raw://beta"),
        ("template", "a", ITEM),
    },
    "of_b": {
        ("tool", "a-b", "beta"),
        ("prompt", "a-b", "greet"), ("prompt", "a-b", "plain"), ("prompt", "a-b", "beta"),
        ("resource", "a-b", "raw://beta"),
        ("template", "a-b", ITEM),
    },
}  # fmt: skip
LISTED = {
    "narrowed": Listed(["a:alpha", "a-b:whoami"], ["greet", "beta"], [TEXT, "raw://beta"], [ITEM]),
    "of_b": Listed(["a-b:beta"], ["greet", "plain", "beta"], ["raw://beta"], [ITEM]),
}


class Spelt(NamedTuple):
    """A spelling of an item, and the item it reaches; None is a refusal."""

    kind: str
    name: str
    reached: str | None


def spellings(agent: str) -> Iterator[Spelt]:
    """Yield every name of each item: with its server, bare, and a tool's alias."""
    for kind, server, name in OFFERS:
        requested = ITEM_7 if kind == "template" else name
        used = "resource" if kind == "template" else kind
        ours = (kind, server, name) in USABLE[agent]
        owners = [s for k, s, n in USABLE[agent] if (k, n) == (kind, name)]
        by_server = f"{requested} of {server}" if ours else None
        yield Spelt(used, f"{server}:{requested}", by_server)
        yield Spelt(used, requested, f"{requested} of {owners[0]}" if owners else None)
        if kind == "tool":
            yield Spelt(used, f"{server}__{requested}", by_server)


@asynccontextmanager
async def two_behind(**settings: object) -> AsyncIterator[Served]:
    """Serve two servers to both agents, and two tenants with a document each."""
    for tenant in TENANTS:
        folder = Path("documents") / tenant
        folder.mkdir(parents=True)
        document = {"doc_id": f"of_{tenant}", "tenant_id": tenant, "pages": ["text"]}
        write_json(folder / "one.json", document | {"title": f"Title of {tenant}"})
    async with in_front_of_two(*AGENTS, presets=(EVERYTHING, NARROW), **settings) as served:
        yield served


def foreign(who: Who) -> set[str]:
    """Return the names that no answer to ``who`` may contain: of others, and of hidden items."""
    other_tenant = next(tenant for tenant in TENANTS if tenant != who.tenant)
    other_agent = next(agent for agent in USABLE if agent != who.agent)
    bare = {name for _, _, name in USABLE[str(who.agent)]}
    return {other_tenant, other_agent} | {name for _, _, name in OFFERS if name not in bare}


async def outcome_and_leaks(entry: Entry, who: Who, spelt: Spelt) -> tuple[str, set[str]]:
    """Use an item; return the reached item and the foreign names in its answer."""
    used = await entry.use(
        spelt.kind, spelt.name, {"name": "x"} if spelt.name.endswith("greet") else {}
    )
    answer = used.answer.replace(spelt.name, "") if used.reached is None else ""
    return str(used.reached), {word for word in foreign(who) if word in answer}


@pytest.mark.parametrize("agent", USABLE)
@ways
async def test_each_agent_can_use_exactly_its_listed_items_and_sees_no_others(
    way: tuple[str, str], agent: str
) -> None:
    async with two_behind() as served:
        for tenant in TENANTS:
            who = Who(tenant, agent)
            async with entered(served, way, who) as entry:
                shown = await entry.shown()
                downstream = shown._replace(tools=[it for it in shown.tools if ":" in it])
                local = {it for it in shown.tools if ":" not in it} - {"list_available_tools"}
                assert (downstream, local) == (LISTED[agent], LOCAL[agent])
                ways = list(spellings(agent))
                happened = [await outcome_and_leaks(entry, who, spelt) for spelt in ways]
                assert dict(zip(ways, happened, strict=True)) == {
                    spelt: (str(spelt.reached), set()) for spelt in ways
                }


@ways
async def test_a_tenant_reads_only_its_own_documents(
    way: tuple[str, str],
) -> None:
    async with two_behind() as served:
        for tenant, agent, other in (
            ("tenant_1", "narrowed", "tenant_2"),
            ("tenant_2", "of_b", "tenant_1"),
        ):
            async with entered(served, way, Who(tenant, agent)) as entry:
                own, hidden = [await read(entry, f"of_{owner}") for owner in (tenant, other)]
            beyond = hidden.answer.replace(f"of_{other}", "")
            assert (own.content or {})["structuredContent"]["title"] == f"Title of {tenant}"
            assert (code_of(hidden.answer), other in beyond) == ("ACCESS_DENIED", False)


@ways
async def test_an_excluded_document_tool_is_refused(way: tuple[str, str]) -> None:
    pages = {"doc_id": "of_tenant_1", "page_start": 1, "page_end": 1}
    async with two_behind() as served, entered(served, way, Who("tenant_1", "of_b")) as entry:
        used = await entry.use("tool", PAGES, pages)
    assert (used.content, code_of(used.answer)) == (None, "TOOL_NOT_ALLOWED")


async def test_a_tenants_budget_is_shared_by_all_entries_and_by_no_other_tenant() -> None:
    served_by_one = [way for way in WAYS if way[0] != "stdio"]
    budget = len(served_by_one)
    async with two_behind(rate_limit_tenant_calls=budget) as served:
        for tenant in TENANTS:
            outcomes = []
            for way in (*served_by_one, *served_by_one):
                async with entered(served, way, Who(tenant, "of_b")) as entry:
                    outcomes.append(outcome_of(await read(entry, f"of_{tenant}")))
            assert outcomes == ["OK"] * budget + ["RATE_LIMIT_EXCEEDED"] * budget


async def read(entry: Entry, doc_id: str) -> Used:
    """Read a document's metadata."""
    return await entry.use("tool", "read_doc_metadata", {"doc_id": doc_id})


def outcome_of(used: Used) -> str:
    """Return the error's code, or OK."""
    return code_of(used.answer) if used.content is None else "OK"


def code_of(answer: str) -> str:
    start = answer.index('"code": "') + len('"code": "')
    return answer[start : answer.index('"', start)]
