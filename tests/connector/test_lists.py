"""What the backend lists: the active preset's items alone, as their servers described them."""

from typing import Any

import pytest

from tests.connector.backend_link import ERAS, begun, linked, linked_to_one
from tests.support.configuration import Json, make_preset
from tests.support.http_api import EVERYTHING, OWN, config_of, offer
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.relay_samples import EXTRA, LISTS, RICH_TOOL
from tests.support.remote_backend.session import LEGACY, MODERN, Session
from tests.support.seed_002 import SEED

eras = pytest.mark.parametrize("era", ERAS)

PART = make_preset(
    "part", tools=[("a", "whoami")], prompts=[("a", "alpha")], resources=[("a", "raw://alpha")]
)


async def listed(session: Session, method: str) -> list[Json]:
    result: dict[str, Any] = await session.result(method)
    items: list[Json] = result[LISTS[method][0]]
    return items


@eras
@pytest.mark.requirement("W-06")
async def test_the_backend_is_shown_the_active_preset_s_items_alone(era: str) -> None:
    async with (
        running_raw(name="a", **offer(OWN["a"])) as a,
        running_raw(name="a-b", **offer(OWN["a-b"])) as a_b,
        linked(config=config_of(a, a_b, presets=(PART, EVERYTHING))) as (_, backend),
    ):
        session = await begun(backend, era)
        tools = [tool["name"] for tool in await listed(session, "tools/list")]
        prompts = [prompt["name"] for prompt in await listed(session, "prompts/list")]
        resources = [resource["uri"] for resource in await listed(session, "resources/list")]
    assert [name for name in tools if ":" in name] == ["a:whoami"]
    assert (prompts, resources) == (["alpha"], ["raw://alpha"])


@pytest.mark.requirement("W-06")
async def test_a_tool_outside_the_active_preset_cannot_be_called() -> None:
    async with linked_to_one("echo") as (_, backend, server):
        result = await backend.session().call("s1:sleep")
    assert (result["isError"], server.script.calls["sleep"]) == (True, 0)


@pytest.mark.requirement("W-06")
async def test_the_tools_of_the_gateway_itself_are_listed_beside_them() -> None:
    async with linked_to_one() as (_, backend, _):
        tools = {tool["name"] for tool in await listed(backend.session(), "tools/list")}
    assert {"s1:whoami", "read_doc_metadata"} <= tools


@eras
@pytest.mark.requirement("W-07", "W-08")
@pytest.mark.parametrize("method", LISTS)
async def test_a_descriptor_is_listed_whole(era: str, method: str) -> None:
    async with linked_to_one("rich", raw={"extra": EXTRA}) as (_, backend, _):
        assert LISTS[method][1] in await listed(await begun(backend, era), method)


@eras
@pytest.mark.requirement("W-07")
async def test_definitions_and_closed_objects_of_a_schema_are_kept(era: str) -> None:
    async with linked_to_one("rich", raw={"extra": EXTRA}) as (_, backend, _):
        tools = await listed(await begun(backend, era), "tools/list")
    (tool,) = [tool for tool in tools if tool["name"] == "s1:rich"]
    assert tool["inputSchema"] == RICH_TOOL["inputSchema"]
    assert {"$defs", "additionalProperties"} <= tool["inputSchema"].keys()
    assert tool["outputSchema"] == RICH_TOOL["outputSchema"]


@eras
@pytest.mark.requirement("W-08", "W-09")
@pytest.mark.parametrize("method", LISTS)
async def test_what_seed_002_lists_is_listed_with_each_field_in_mcp_s_spelling(
    era: str, method: str
) -> None:
    kind = LISTS[method][0]
    (item,) = SEED[kind]
    expected = item | ({"name": "s1:search"} if kind == "tools" else {})
    async with linked_to_one("search", raw={"extra": SEED}) as (_, backend, _):
        assert expected in await listed(await begun(backend, era), method)


@eras
@pytest.mark.requirement("W-10")
async def test_a_uri_with_parameters_is_listed_as_a_template(era: str) -> None:
    async with linked_to_one(raw={"extra": SEED}) as (_, backend, _):
        session = await begun(backend, era)
        templates = [it["uriTemplate"] for it in await listed(session, "resources/templates/list")]
        resources = [it["uri"] for it in await listed(session, "resources/list")]
    assert ("docs/{id}" in templates, "docs/{id}" in resources) == (True, False)


@eras
@pytest.mark.requirement("W-10")
async def test_a_resource_whose_server_lists_it_with_parameters_is_a_template(era: str) -> None:
    odd = {"name": "doc", "uri": "docs/{id}"}
    async with linked_to_one(raw={"extra": {"resources": [odd]}}) as (_, backend, _):
        session = await begun(backend, era)
        templates = await listed(session, "resources/templates/list")
        assert {"uriTemplate": "docs/{id}", "name": "doc"} in templates
        assert [it["name"] for it in await listed(session, "resources/list")] == ["text"]


@eras
@pytest.mark.requirement("W-11")
async def test_required_arguments_of_a_prompt_and_inputs_of_a_tool_are_visible(era: str) -> None:
    async with linked_to_one("sleep") as (_, backend, _):
        session = await begun(backend, era)
        prompts = {it["name"]: it for it in await listed(session, "prompts/list")}
        tools = {it["name"]: it for it in await listed(session, "tools/list")}
    assert prompts["greet"]["arguments"] == [{"name": "name", "required": True}]
    assert tools["s1:sleep"]["inputSchema"]["required"] == ["seconds"]


async def test_both_eras_see_the_same_tools() -> None:
    async with linked_to_one("echo", "sleep") as (_, backend, _):
        modern, legacy = [
            await listed(await begun(backend, era), "tools/list") for era in (MODERN, LEGACY)
        ]
    assert modern == legacy
