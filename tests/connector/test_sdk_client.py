"""The SDK's client over a session of the backend, in both eras.

``tests/carriers`` checks the details over each carrier.
"""

import asyncio
from typing import Any

import mcp_types as t
import pytest
from mcp import MCPDeprecationWarning

from tests.connector.backend_link import ERAS, MODES, linked_to_one
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.local_tools import LOCAL_TEMPLATES
from tests.support.mcp_endpoint import names
from tests.support.relay_samples import (
    ANSWERS,
    FORM,
    LOG_LINES,
    SAMPLE,
    answer_received,
    requesting_tool,
)

modes = pytest.mark.parametrize("mode", MODES)

URI = "raw://text"


class Callbacks:
    """A client's callbacks, and the requests that they received."""

    def __init__(self) -> None:
        self.received: list[str] = []

    async def elicit(self, _context: object, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.received.append(params.message)
        return t.ElicitResult(action="accept", content={"name": "Ö"})

    async def sample(
        self, _context: object, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResult:
        self.received.append(f"at most {params.max_tokens}")
        text = t.TextContent(text="Ho")
        return t.CreateMessageResult(role="assistant", content=text, model="m")

    @property
    def options(self) -> dict[str, Any]:
        """Options of the SDK's client."""
        return {"elicitation_callback": self.elicit, "sampling_callback": self.sample}


@pytest.mark.parametrize(("mode", "era"), [*zip(MODES, ERAS, strict=True)])
async def test_a_client_negotiates_its_era(mode: str, era: str) -> None:
    async with linked_to_one() as (_, backend, _), backend.client(mode) as client:
        assert client.protocol_version == era
        assert client.server_info is not None
        assert client.server_info.name == "mcp-tools-proxy"


@modes
@pytest.mark.requirement("W-06", "W-10")
async def test_a_client_lists_all_items(mode: str) -> None:
    async with linked_to_one("echo") as (_, backend, _), backend.client(mode) as client:
        assert {"s1:whoami", "s1:echo"} <= set(names(await client.list_tools()))
        assert names(await client.list_prompts()) == ["greet", "plain"]
        assert names(await client.list_resources()) == [URI]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [
            *LOCAL_TEMPLATES,
            "raw://item/{id}",
        ]


@modes
@pytest.mark.requirement("W-13", "W-14")
async def test_a_client_uses_tools_prompts_and_resources(mode: str) -> None:
    async with linked_to_one("echo") as (_, backend, _), backend.client(mode) as client:
        called = await client.call_tool("s1:echo", {"text": "é"})
        prompt = await client.get_prompt("greet", {"name": "Ann"})
        resource = await client.read_resource("raw://item/7")
    assert (called.structured_content, called.is_error) == ({"text": "é"}, False)
    assert getattr(prompt.messages[0].content, "text", None) == "greet of raw for Ann"
    assert getattr(resource.contents[0], "text", None) == "raw://item/7 of raw"


@modes
async def test_a_client_receives_progress(mode: str) -> None:
    received: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert message is None
        received.append((progress, total))

    raw = {"sse": True}
    async with (
        linked_to_one("progress", raw=raw) as (_, backend, _),
        backend.client(mode) as client,
    ):
        await client.call_tool("s1:progress", progress_callback=on_progress)
    assert received == [(1, 2), (2, 2)]


@modes
async def test_a_client_receives_log_lines_of_its_level_and_above(mode: str) -> None:
    received: list[str] = []

    async def on_line(line: t.LoggingMessageNotificationParams) -> None:
        received.append(line.level)

    options: dict[str, Any] = {"logging_callback": on_line}
    if mode == "auto":
        options["log_level"] = "warning"
    async with (
        linked_to_one("notify", raw={"sse": True}) as (_, backend, _),
        backend.client(mode, **options) as client,
    ):
        if mode == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.set_logging_level("warning")
        await client.call_tool("s1:notify", {"messages": LOG_LINES})
    assert received == ["warning", "critical"]


@modes
async def test_a_client_is_notified_about_a_resource_it_subscribed_to(
    mode: str,
) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: object) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            updated.put_nowait(message.params.uri)

    async with (
        linked_to_one("touch", raw={"sse": True}) as (_, backend, _),
        backend.client(mode, message_handler=on_message) as client,
        asyncio.timeout(BOUND_S),
    ):
        if mode == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.subscribe_resource(URI)
            await client.call_tool("s1:touch", {"uri": URI})
            assert await updated.get() == URI
        else:
            async with client.listen(resource_subscriptions=[URI]) as stream:
                await client.call_tool("s1:touch", {"uri": URI})
                event = await anext(aiter(stream))
                assert getattr(event, "uri", None) == URI


@modes
@pytest.mark.parametrize("request_", [FORM, SAMPLE], ids=["elicitation", "sampling"])
async def test_a_client_answers_the_requests_of_its_calls_server(mode: str, request_: Json) -> None:
    tool, arguments = requesting_tool("modern", request_)
    mine, others = Callbacks(), Callbacks()
    async with (
        linked_to_one(tool, raw={"sse": True}) as (_, backend, _),
        backend.client(mode, **others.options),
        backend.client(mode, **mine.options) as client,
    ):
        result = await client.call_tool(f"s1:{tool}", arguments)
    result_ = {"structuredContent": result.structured_content}
    assert answer_received("modern", result_).items() >= ANSWERS[request_["method"]].items()
    assert (len(mine.received), others.received) == (1, [])
