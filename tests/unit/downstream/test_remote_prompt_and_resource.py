from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.errors import (
    InvalidArguments,
    ResourceNotFound,
    ServerUnavailable,
    ToolFailed,
)
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.unit.downstream.fake_server import FakeServer, answering, failing_with
from tests.unit.downstream.offered_components import offered, use


@pytest.fixture
def library() -> FakeServer:
    server = FakeServer()
    server.capabilities = {"prompts": {}, "resources": {}}
    server.lists["prompts/list"] = [
        {"name": "hello", "arguments": [{"name": "name", "required": True}, {"name": "tone"}]}
    ]
    server.lists["resources/list"] = [{"uri": "test://a", "name": "a"}]
    server.lists["resources/templates/list"] = [{"uriTemplate": "test://{id}/x", "name": "t"}]
    server.answers["prompts/get"] = answering(
        {"messages": [{"role": "user", "content": {"text": "hi"}}]}
    )
    server.answers["resources/read"] = answering({"contents": [{"uri": "test://a", "text": "x"}]})
    return server


async def test_a_prompt_is_fetched_with_its_arguments(library: FakeServer) -> None:
    async with offered(library) as (components, _):
        result = await use(
            components.prompts[0], kind=Kind.PROMPT, name="hello", arguments={"name": "Ada"}
        )
    [sent] = library.calls("prompts/get")
    assert (sent["name"], sent["arguments"], result.value["messages"]) == (
        "hello",
        {"name": "Ada"},
        [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, '"name" is missing'),
        ({"name": 7}, '"name" should be a string'),
        ({"name": "x", "tone": True}, '"tone" should be a string'),
        ({"name": "x", "other": "y"}, '"other" is not an argument of prompt "hello", which takes:'),
    ],
)
async def test_wrong_prompt_arguments_are_refused(
    library: FakeServer, arguments: dict[str, Any], message: str
) -> None:
    async with offered(library) as (components, _):
        with pytest.raises(InvalidArguments) as caught:
            components.prompts[0].parse(arguments)
    assert message in caught.value.message


async def test_an_undecodable_prompt_is_a_failure(library: FakeServer) -> None:
    library.answers["prompts/get"] = answering({"messages": "none"})
    async with offered(library) as (components, _):
        with pytest.raises(ToolFailed, match="prompt"):
            await use(
                components.prompts[0], kind=Kind.PROMPT, name="hello", arguments={"name": "x"}
            )


async def test_a_resource_is_read_by_uri(library: FakeServer) -> None:
    async with offered(library) as (components, _):
        await use(components.resources[0], kind=Kind.RESOURCE, name="test://a")
    assert library.calls("resources/read")[0]["uri"] == "test://a"


async def test_a_template_returns_a_resource_that_reads_the_uri(library: FakeServer) -> None:
    async with offered(library) as (components, _):
        resource = components.templates[0].at("test://7/x")
        assert resource is not None
        await use(resource, kind=Kind.RESOURCE, name="library:test://7/x")
    assert library.calls("resources/read")[0]["uri"] == "test://7/x"


@pytest.mark.parametrize(
    ("uri", "matches"),
    [("test://7/x", True), ("test://7/y", False), ("test://" + "7" * 9000 + "/x", False)],
)
async def test_a_template_matches_its_uris(library: FakeServer, uri: str, matches: bool) -> None:
    async with offered(library) as (components, _):
        assert (components.templates[0].at(uri) is not None) is matches


@pytest.mark.parametrize("code", [-32002, -32602])
async def test_a_resource_unknown_to_the_server_is_not_found(
    library: FakeServer, code: int
) -> None:
    library.answers["resources/read"] = failing_with(JsonRpcError(code, "no such resource"))
    async with offered(library) as (components, _):
        with pytest.raises(ResourceNotFound):
            await use(components.resources[0], kind=Kind.RESOURCE, name="test://a")


async def test_reading_is_retried_after_a_lost_connection(library: FakeServer) -> None:
    library.answers["resources/read"] = failing_with(ConnectionFailure("connection reset"))
    async with offered(library) as (components, _):
        with pytest.raises(ServerUnavailable):
            await use(components.resources[0], kind=Kind.RESOURCE, name="test://a")
    assert len(library.calls("resources/read")) == 2


async def test_a_failing_prompt_is_a_failure(library: FakeServer) -> None:
    library.answers["prompts/get"] = failing_with(JsonRpcError(-32602, "no"))
    async with offered(library) as (components, _):
        with pytest.raises(ToolFailed, match='prompt "hello" failed'):
            await use(
                components.prompts[0], kind=Kind.PROMPT, name="hello", arguments={"name": "x"}
            )


async def test_an_undecodable_resource_is_a_failure(library: FakeServer) -> None:
    library.answers["resources/read"] = answering({"contents": [{"text": "x"}]})
    async with offered(library) as (components, _):
        with pytest.raises(ToolFailed, match="not a resource's contents"):
            await use(components.resources[0], kind=Kind.RESOURCE, name="test://a")


async def test_any_other_error_of_a_resource_is_a_failure(library: FakeServer) -> None:
    library.answers["resources/read"] = failing_with(JsonRpcError(-32603, "boom"))
    async with offered(library) as (components, _):
        with pytest.raises(ToolFailed, match="error -32603"):
            await use(components.resources[0], kind=Kind.RESOURCE, name="test://a")


async def test_arguments_for_a_resource_are_refused(library: FakeServer) -> None:
    async with offered(library) as (components, _):
        with pytest.raises(InvalidArguments):
            components.resources[0].parse({"id": "7"})


@pytest.mark.parametrize("uri", ["test://../x", "test://%2e%2E/x", "test://a%2f..%2fb/x"])
async def test_a_template_does_not_match_uris_outside_its_path(
    library: FakeServer, uri: str
) -> None:
    async with offered(library) as (components, _):
        [template] = components.templates
        assert template.at("test://a%2Fb/x") is not None
        assert template.at(uri) is None
