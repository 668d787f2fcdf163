"""What a client lists: the active preset's items, as their servers described them."""

import json

import pytest

from tests.carriers.gateway import CARRIERS, Carrier, every_carrier, gateway_over
from tests.support.configuration import Json
from tests.support.relay_samples import EXTRA, LISTS
from tests.support.seed_002 import SEED

METHOD_OF = {kind: method for method, (kind, _) in LISTS.items()}
SEED_DESCRIPTORS = {kind: items[0] for kind, items in SEED.items()}
SEED_DESCRIPTORS["tools"] = SEED_DESCRIPTORS["tools"] | {"name": "s1:search"}


async def lists_over(carrier: Carrier, *tools: str, extra: Json) -> dict[str, list[Json]]:
    """Return the items of each list, by its kind."""
    async with gateway_over(carrier, *tools, extra=extra) as gateway:
        client = await gateway.connect()
        return {kind: (await client.result(METHOD_OF[kind]))[kind] for kind in METHOD_OF}


@every_carrier
@pytest.mark.requirement("W-07", "W-08")
async def test_a_descriptor_is_listed_whole_as_its_server_sent_it(carrier: Carrier) -> None:
    listed = await lists_over(carrier, "rich", extra=EXTRA)
    described = dict(LISTS.values())
    assert {kind: [it for it in listed[kind] if it == described[kind]] for kind in described} == {
        kind: [descriptor] for kind, descriptor in described.items()
    }


@every_carrier
@pytest.mark.requirement("F-11")
async def test_each_item_of_the_view_is_listed_once(carrier: Carrier) -> None:
    """The preset names the tool twice."""
    listed = await lists_over(carrier, "rich", "rich", extra=EXTRA)
    for items in listed.values():
        keys = [item.get("uri") or item.get("uriTemplate") or item["name"] for item in items]
        assert len(keys) == len(set(keys))


@every_carrier
@pytest.mark.requirement("W-08", "W-09", "W-10")
async def test_what_seed_002_lists_is_listed_with_each_field_in_mcp_s_spelling(
    carrier: Carrier,
) -> None:
    listed = await lists_over(carrier, "search", extra=SEED)
    for kind, descriptor in SEED_DESCRIPTORS.items():
        assert descriptor in listed[kind]
    assert "docs/{id}" not in [it["uri"] for it in listed["resources"]]


@every_carrier
@pytest.mark.requirement("W-10")
async def test_a_resource_whose_server_lists_it_with_parameters_is_a_template(
    carrier: Carrier,
) -> None:
    listed = await lists_over(carrier, extra={"resources": [{"name": "doc", "uri": "docs/{id}"}]})
    assert {"uriTemplate": "docs/{id}", "name": "doc"} in listed["resourceTemplates"]
    assert [it["name"] for it in listed["resources"]] == ["text"]


@every_carrier
@pytest.mark.requirement("W-06", "W-11")
async def test_only_what_the_preset_names_is_listed_and_can_be_called(carrier: Carrier) -> None:
    async with gateway_over(carrier, "sleep") as gateway:
        client = await gateway.connect()
        tools = {it["name"]: it for it in (await client.result("tools/list"))["tools"]}
        prompts = {it["name"]: it for it in (await client.result("prompts/list"))["prompts"]}
        refused = await client.call("echo", {"text": "x"})
    assert [name for name in tools if ":" in name] == ["s1:whoami", "s1:sleep"]
    assert "read_doc_metadata" in tools
    assert tools["s1:sleep"]["inputSchema"]["required"] == ["seconds"]
    assert prompts["greet"]["arguments"] == [{"name": "name", "required": True}]
    assert (refused["isError"], gateway.server.script.calls["echo"]) == (True, 0)


@every_carrier
async def test_an_argument_is_completed_by_the_prompt_s_server(carrier: Carrier) -> None:
    reference = {"type": "ref/prompt", "name": "greet"}
    params = {"ref": reference, "argument": {"name": "name", "value": "é"}}
    async with gateway_over(carrier) as gateway:
        result = await (await gateway.connect()).result("completion/complete", params)
    (received,) = result["completion"]["values"]
    assert json.loads(received) == params


async def test_every_carrier_lists_the_same_tools_in_the_same_order() -> None:
    """Whatever the era: results differ in their envelope only."""
    lists = [
        (await lists_over(carrier, "echo", "sleep", extra={}))["tools"]
        for carrier in CARRIERS
        if carrier.name != "stdio"
    ]
    assert lists == [lists[0]] * len(lists)
