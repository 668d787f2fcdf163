"""Each server looks the same through the gateway as to its own client."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.fleet.comparison import call, direct, lists_of, normalized, read
from tests.fleet.gateway import Fleet
from tests.fleet.servers import SERVERS, Server, fill, make_folder
from tests.support.local_tools import LISTED_TOOLS

Json = dict[str, Any]

ANSWERS_INVALID_CALLS = {"slack"}
"""Servers whose results do not show that a call was invalid."""


@pytest.fixture(scope="session")
def shown(fleet: Fleet) -> Json:
    async def listed() -> Json:
        async with Client(fleet.url) as client:
            return await lists_of(client)

    return asyncio.run(listed())


def test_the_fleet_is_large() -> None:
    assert len(SERVERS) >= 25
    assert [name for name, server in SERVERS.items() if len(server.calls) < 2] == []


def test_names_are_accepted_by_model_apis(fleet: Fleet, shown: Json) -> None:
    refused = [it for it in shown["tools"] if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", it)]
    assert (refused, len(shown["tools"])) == ([], len(LISTED_TOOLS) + len(fleet.tools))


async def test_calls_of_the_fleet_return_every_kind_of_content(fleet: Fleet) -> None:
    async with Client(fleet.url) as client:
        results = [
            await call(client, f"everything__{tool}", arguments)
            for tool, arguments in SERVERS["everything"].calls
        ]
    kinds = {block["type"] for it in results for block in it["content"]}
    assert kinds == {"text", "image", "resource_link", "resource"}
    assert len([it for it in results if "structuredContent" in it]) == 1
    assert len([it for it in results if it["isError"]]) == 1
    assert [len(it["progress"]) for it in results if it["progress"]] == [2]


@pytest.mark.parametrize("name", SERVERS)
async def test_lists_and_results_match_the_server(
    fleet: Fleet, shown: Json, name: str, tmp_path: Path
) -> None:
    server = SERVERS[name]
    ours = fleet.values | {"folder": fleet.folder_of(name)}
    theirs = fleet.values | {"folder": make_folder(tmp_path / "direct")}
    async with direct(server.entry(**theirs)) as client, Client(fleet.url) as gateway:
        lists = await lists_of(client)
        expected = await seen(client, server, lists, theirs)
        there = await seen(gateway, server, only(shown, lists, f"{name}__"), ours, f"{name}__")
    assert there["invalid"]["isError"]
    assert expected["invalid"]["isError"] != (name in ANSWERS_INVALID_CALLS)
    del there["invalid"], expected["invalid"]  # the gateway validates arguments itself
    assert there == expected


async def seen(
    client: Client, server: Server, lists: Json, values: Mapping[str, str], prefix: str = ""
) -> Json:
    """Return a client's view of a server: lists, results, resources, and an invalid call."""
    results = [
        await call(client, prefix + tool, fill(arguments, **values))
        for tool, arguments in server.calls
    ]
    found = {
        "lists": lists,
        "results": results,
        "resources": [await read(client, uri) for uri in [*lists["resources"]][:2]],
        "invalid": await call(client, prefix + invalid_without_arguments(lists["tools"]), {}),
    }
    return normalized(found, values["folder"], server.differs)


def only(shown: Json, lists: Json, prefix: str) -> Json:
    """Return the view of one server, with its own tool names."""
    tools = [it for name, it in shown["tools"].items() if name.startswith(prefix)]
    names = [it["name"].removeprefix(prefix) for it in tools]
    return {
        **{kind: {key: shown[kind].get(key) for key in items} for kind, items in lists.items()},
        "tools": {name: it | {"name": name} for name, it in zip(names, tools, strict=True)},
    }


def invalid_without_arguments(tools: Json) -> str:
    """Return a tool that needs an argument, or the only tool."""
    needing = [name for name, it in tools.items() if it["inputSchema"].get("required")]
    return next(iter(needing or tools))
