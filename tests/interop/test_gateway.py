"""The gateway in front of server-everything, over each of its transports."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import mcp_types as t
import pytest

from tests.interop.everything_server import TASK_ONLY, TOOLS, running_everything, stdio_entry
from tests.support.configuration import Config, make_preset
from tests.support.mcp_endpoint import serving
from tests.support.service import PROMPTS, RESOURCES, SERVERS, Service, running
from tests.support.service import TOOLS as TOOLS_ROUTE

Json = dict[str, Any]
ID = "everything"
USER = {"user_id": "u", "tenant_id": "t"}
TEXT = "demo://resource/static/document/features.md"
CURRENT_CALLER = [
    "get-roots-list",
    "trigger-elicitation-request",
    "trigger-sampling-request",
    "trigger-url-elicitation",
]
"""Additional tools that it offers to clients that can receive requests, such as the gateway."""


def configured(entry: Json) -> Config:
    """Show all items of the server."""
    preset = make_preset(tools=[(ID, name) for name in [*TOOLS, *CURRENT_CALLER, TASK_ONLY]])
    return Config(servers={ID: entry}, presets=[preset])


@pytest.fixture
async def service(entry: Json) -> AsyncIterator[Service]:
    async with running(config=configured(entry)) as started:
        yield started


async def content_of(
    service: Service, tool: str, arguments: Mapping[str, object] | None = None
) -> list[Json]:
    content: list[Json] = (await service.result(f"{ID}:{tool}", arguments))["content"]
    return content


async def test_it_is_ready_with_all_its_items(service: Service) -> None:
    (server,) = (await service.get(SERVERS))["servers"]
    assert (server["state"], server["era"], server["counts"]) == (
        "ready",
        "2025-11-25",
        {"tools": 16, "prompts": 4, "resources": 7, "resource_templates": 2},
    )


async def test_its_tools_are_listed_with_their_names_prefixed(service: Service) -> None:
    assert sorted(await service.listed()) == [
        f"{ID}:{name}" for name in sorted([*TOOLS, *CURRENT_CALLER])
    ]


async def test_a_tool_keeps_its_schemas_title_and_annotations(service: Service) -> None:
    tools = {tool["name"]: tool for tool in (await service.get(TOOLS_ROUTE))["tools"]}
    tool = tools[f"{ID}:get-structured-content"]
    assert (
        tool["title"],
        tool["inputSchema"]["required"],
        sorted(tool["outputSchema"]["properties"]),
        tool["annotations"]["readOnlyHint"],
    ) == (
        "Get Structured Content Tool",
        ["location"],
        ["conditions", "humidity", "temperature"],
        True,
    )


async def test_its_prompts_are_listed(service: Service) -> None:
    prompts = (await service.get(PROMPTS))["prompts"]
    assert sorted(prompt["name"] for prompt in prompts) == [
        "args-prompt",
        "completable-prompt",
        "resource-prompt",
        "simple-prompt",
    ]


async def test_its_resources_and_templates_are_listed(service: Service) -> None:
    listed = await service.get(RESOURCES)
    templates = sorted(each["uriTemplate"] for each in listed["resource_templates"])
    assert (TEXT in [each["uri"] for each in listed["resources"]], templates) == (
        True,
        [
            "demo://resource/dynamic/blob/{resourceId}",
            "demo://resource/dynamic/text/{resourceId}",
            "doc://{doc_id}",
            "doc://{doc_id}/pages/{from}-{to}",
        ],
    )


async def test_a_tool_answers_with_text(service: Service) -> None:
    content = await content_of(service, "echo", {"message": "Привет"})
    assert content == [{"type": "text", "text": "Echo: Привет"}]


async def test_numbers_arrive_as_numbers(service: Service) -> None:
    content = await content_of(service, "get-sum", {"a": 2, "b": 0.5})
    assert content[0]["text"] == "The sum of 2 and 0.5 is 2.5."


@pytest.mark.parametrize("arguments", [{"a": "2", "b": 3}, {"a": 2}, {}])
async def test_arguments_are_checked_against_its_schema(service: Service, arguments: Json) -> None:
    assert await service.code(f"{ID}:get-sum", arguments) == "INVALID_ARGUMENTS"


async def test_structured_content_is_passed_on(service: Service) -> None:
    arguments = {"location": "Chicago"}
    result = await service.result(f"{ID}:get-structured-content", arguments)
    assert result["structured_content"] == {
        "temperature": 36,
        "conditions": "Light rain / drizzle",
        "humidity": 82,
    }


async def test_an_image_is_passed_on(service: Service) -> None:
    before, image, after = await content_of(service, "get-tiny-image")
    assert (before["type"], image["type"], image["mimeType"], after["type"]) == (
        "text",
        "image",
        "image/png",
        "text",
    )
    assert image["data"].startswith("iVBORw0KGgo")


async def test_annotations_of_a_message_are_passed_on(service: Service) -> None:
    arguments = {"messageType": "error", "includeImage": True}
    message, image = await content_of(service, "get-annotated-message", arguments)
    assert (message["annotations"], image["annotations"]["audience"]) == (
        {"priority": 1, "audience": ["user", "assistant"]},
        ["user"],
    )


async def test_links_to_resources_are_passed_on(service: Service) -> None:
    _, *links = await content_of(service, "get-resource-links", {"count": 2})
    assert [(link["type"], link["uri"]) for link in links] == [
        ("resource_link", "demo://resource/dynamic/blob/1"),
        ("resource_link", "demo://resource/dynamic/text/2"),
    ]


async def test_an_embedded_resource_is_passed_on(service: Service) -> None:
    arguments = {"resourceType": "Text", "resourceId": 5}
    _, embedded, _ = await content_of(service, "get-resource-reference", arguments)
    assert embedded["resource"]["uri"] == "demo://resource/dynamic/text/5"


async def test_a_long_operation_succeeds(service: Service) -> None:
    arguments = {"duration": 0.5, "steps": 2}
    content = await content_of(service, "trigger-long-running-operation", arguments)
    assert content[0]["text"].startswith("Long running operation completed.")


async def test_its_requests_are_answered_by_the_client_of_the_call(entry: Json) -> None:
    async def write(_: object, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        text = f"at most {params.max_tokens} tokens"
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text=text), model="m")

    arguments = {"prompt": "Hello", "maxTokens": 7}
    async with (
        serving(config=configured(entry)) as served,
        served.client(mode="legacy", sampling_callback=write) as client,
    ):
        result = await client.call_tool(f"{ID}:trigger-sampling-request", arguments)
    (block,) = result.content
    assert isinstance(block, t.TextContent)
    assert "at most 7 tokens" in block.text


async def test_its_error_is_the_tools_failure_with_its_message(service: Service) -> None:
    envelope = await service.execute(f"{ID}:get-resource-reference", {"resourceId": -1})
    error = envelope["error"]
    assert error["code"] == "TOOL_FAILED"
    assert "Invalid resourceId: -1" in error["details"]["content"][0]["text"]


async def test_a_resource_is_read(service: Service) -> None:
    contents = await read(service, TEXT)
    assert (contents["mimeType"], "# Everything Server" in contents["text"]) == (
        "text/markdown",
        True,
    )


@pytest.mark.parametrize(("kind", "field"), [("text", "text"), ("blob", "blob")])
async def test_a_resource_of_a_template_is_read(service: Service, kind: str, field: str) -> None:
    uri = f"demo://resource/dynamic/{kind}/7"
    contents = await read(service, uri)
    assert (contents["uri"], bool(contents[field])) == (uri, True)


async def read(service: Service, uri: str) -> Json:
    response = await service.http.post(f"{RESOURCES}/read", json={"uri": uri, "user": USER})
    contents: Json
    (contents,) = response.json()["result"]["contents"]
    return contents


async def prompted(service: Service, name: str, arguments: Json | None = None) -> Json:
    body = {"name": name, "arguments": arguments, "user": USER}
    envelope: Json = (await service.http.post(f"{PROMPTS}/get", json=body)).json()
    return envelope


async def test_a_prompt_is_filled_in(service: Service) -> None:
    arguments = {"city": "Kyiv", "state": "Ukraine"}
    (message,) = (await prompted(service, "args-prompt", arguments))["result"]["messages"]
    assert message["content"]["text"] == "What's weather in Kyiv, Ukraine?"


async def test_a_prompt_may_embed_a_resource(service: Service) -> None:
    arguments = {"resourceType": "Blob", "resourceId": "3"}
    _, message = (await prompted(service, "resource-prompt", arguments))["result"]["messages"]
    assert message["content"]["resource"]["uri"] == "demo://resource/dynamic/blob/3"


async def test_a_prompt_without_its_required_argument_is_refused(service: Service) -> None:
    assert (await prompted(service, "args-prompt"))["error"]["code"] == "INVALID_ARGUMENTS"


async def test_it_sees_only_the_environment_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_GATEWAY", "1")
    async with running(config=configured(stdio_entry(GIVEN="yes"))) as service:
        (block,) = await content_of(service, "get-env")
    shown: str = block["text"]
    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "GIVEN"}
    names = {line.split('"')[1] for line in shown.splitlines() if line.startswith('  "')}
    assert (names - allowed, '"GIVEN": "yes"' in shown) == (set(), True)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_its_restart_costs_one_call_at_most(transport: str) -> None:
    with running_everything(transport) as server:
        async with running(config=configured(server.entry)) as service:
            before = await service.code(f"{ID}:echo", {"message": "a"})
            server.stop()
            server.start()
            after = [await service.code(f"{ID}:echo", {"message": "a"}) for _ in range(5)]
    assert (before, after[1:]) == ("OK", ["OK"] * 4)
