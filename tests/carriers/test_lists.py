import json
from collections.abc import AsyncIterator

import pytest

from tests.carriers.clients import McpClient
from tests.carriers.gateway import Carrier, Gateway, gateway_over, shared_gateway
from tests.support.configuration import Json
from tests.support.mcp_endpoint import LEGACY, MODERN
from tests.support.relay_samples import EXTRA, LISTS
from tests.support.seed_002 import SEED

METHOD_OF = {kind: method for method, (kind, _) in LISTS.items()}
SEED_DESCRIPTORS = {kind: items[0] for kind, items in SEED.items()}
SEED_DESCRIPTORS["tools"] = SEED_DESCRIPTORS["tools"] | {"name": "s1:search"}


Lists = dict[str, list[Json]]
ODD_RESOURCE = {"name": "odd", "uri": "odd/{id}"}
ITEMS = {kind: [*EXTRA[kind], *SEED[kind]] for kind in EXTRA}
ITEMS["resources"].append(ODD_RESOURCE)


@pytest.fixture(scope="module")
async def gateway(
    carrier: Carrier, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    tools = ("rich", "rich", "search", "sleep")
    async with shared_gateway(carrier, folder, *tools, extra=ITEMS) as running:
        yield running


@pytest.fixture(scope="module")
async def client(gateway: Gateway) -> McpClient:
    return await gateway.connect()


@pytest.fixture(scope="module")
async def listed(client: McpClient) -> Lists:
    return {kind: (await client.result(METHOD_OF[kind]))[kind] for kind in METHOD_OF}


@pytest.mark.requirement("W-07", "W-08")
async def test_a_descriptor_is_listed_unchanged(listed: Lists) -> None:
    for kind, descriptor in LISTS.values():
        assert descriptor in listed[kind]


@pytest.mark.requirement("F-11")
async def test_each_item_of_the_view_is_listed_once(listed: Lists) -> None:
    for items in listed.values():
        keys = [item.get("uri") or item.get("uriTemplate") or item["name"] for item in items]
        assert len(keys) == len(set(keys))


@pytest.mark.requirement("W-08", "W-09", "W-10")
async def test_items_of_seed_002_are_listed_with_field_names_as_in_mcp(
    listed: Lists,
) -> None:
    for kind, descriptor in SEED_DESCRIPTORS.items():
        assert descriptor in listed[kind]
    assert "docs/{id}" not in [it["uri"] for it in listed["resources"]]


@pytest.mark.requirement("W-10")
async def test_a_resource_with_parameters_is_listed_as_a_template(
    listed: Lists,
) -> None:
    assert {"uriTemplate": "odd/{id}", "name": "odd"} in listed["resourceTemplates"]
    assert [it["name"] for it in listed["resources"]] == ["text", "rich", "page"]


@pytest.mark.requirement("W-06", "W-11")
async def test_only_items_named_by_the_preset_are_listed_and_callable(
    gateway: Gateway, client: McpClient, listed: Lists
) -> None:
    tools = {it["name"]: it for it in listed["tools"]}
    prompts = {it["name"]: it for it in listed["prompts"]}
    refused = await client.call("echo", {"text": "x"})
    assert {name for name in tools if ":" in name} == {
        "s1:whoami",
        "s1:rich",
        "s1:search",
        "s1:sleep",
    }
    assert "read_doc_metadata" in tools
    assert tools["s1:sleep"]["inputSchema"]["required"] == ["seconds"]
    assert prompts["greet"]["arguments"] == [{"name": "name", "required": True}]
    assert (refused["isError"], refused.get("structuredContent")) == (True, None)
    assert gateway.server.script.calls["echo"] == 0


async def test_an_argument_is_completed_by_the_prompts_server(client: McpClient) -> None:
    reference = {"type": "ref/prompt", "name": "greet"}
    params = {"ref": reference, "argument": {"name": "name", "value": "é"}}
    result = await client.result("completion/complete", params)
    (received,) = result["completion"]["values"]
    assert json.loads(received) == params


async def test_modern_and_legacy_clients_list_the_same_tools() -> None:
    lists = []
    for carrier in (Carrier("connector", MODERN), Carrier("connector", LEGACY)):
        async with gateway_over(carrier, "echo", "sleep") as gateway:
            lists.append(await (await gateway.connect()).result("tools/list"))
    modern, legacy = lists
    assert modern["tools"] == legacy["tools"]
