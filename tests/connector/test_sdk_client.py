"""The SDK's own client over a session of the backend, in both eras."""

import asyncio
import json
from typing import Any

import mcp_types as t
import pytest
from mcp import MCPDeprecationWarning

from tests.connector.backend_link import ERAS, MODES, begun, linked_to_one, until_running
from tests.support.bounds import BOUND_S
from tests.support.mcp_endpoint import names
from tests.support.relay_samples import LOG_LINES
from tests.support.remote_backend.session import LEGACY

modes = pytest.mark.parametrize("mode", MODES)
server_eras = pytest.mark.parametrize("server_era", ["modern", "legacy"])

URI = "raw://text"


@pytest.mark.parametrize(("mode", "era"), [*zip(MODES, ERAS, strict=True)])
async def test_a_client_comes_to_its_era(mode: str, era: str) -> None:
    async with linked_to_one() as (_, backend, _), backend.client(mode) as client:
        assert client.protocol_version == era
        assert client.server_info is not None
        assert client.server_info.name == "mcp-tools-proxy"


@modes
@pytest.mark.requirement("W-06", "W-10")
async def test_a_client_lists_all_there_is(mode: str) -> None:
    async with linked_to_one("echo") as (_, backend, _), backend.client(mode) as client:
        assert {"s1:whoami", "s1:echo"} <= set(names(await client.list_tools()))
        assert names(await client.list_prompts()) == ["greet", "plain"]
        assert names(await client.list_resources()) == [URI]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["raw://item/{id}"]


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
async def test_a_client_is_completed_for(mode: str) -> None:
    reference = t.PromptReference(name="greet")
    async with linked_to_one() as (_, backend, _), backend.client(mode) as client:
        result = await client.complete(reference, {"name": "name", "value": "é"})
    (told,) = result.completion.values
    assert json.loads(told)["argument"] == {"name": "name", "value": "é"}


@modes
@server_eras
async def test_a_client_hears_of_progress(mode: str, server_era: str) -> None:
    heard: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert message is None
        heard.append((progress, total))

    raw = {"era": server_era, "sse": True}
    async with (
        linked_to_one("progress", raw=raw) as (_, backend, _),
        backend.client(mode) as client,
    ):
        await client.call_tool("s1:progress", progress_callback=on_progress)
    assert heard == [(1, 2), (2, 2)]


@modes
@server_eras
async def test_a_client_is_told_log_lines_from_its_level_on(mode: str, server_era: str) -> None:
    heard: list[str] = []

    async def on_line(line: t.LoggingMessageNotificationParams) -> None:
        heard.append(line.level)

    options: dict[str, Any] = {"logging_callback": on_line}
    if mode == "auto":
        options["log_level"] = "warning"
    async with (
        linked_to_one("say", raw={"era": server_era, "sse": True}) as (_, backend, _),
        backend.client(mode, **options) as client,
    ):
        if mode == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.set_logging_level("warning")
        await client.call_tool("s1:say", {"messages": LOG_LINES})
    assert heard == ["warning", "critical"]


@modes
@server_eras
async def test_a_call_that_a_client_cancels_is_cancelled_at_its_server(
    mode: str, server_era: str
) -> None:
    async with (
        linked_to_one("hang", raw={"era": server_era}) as (_, backend, server),
        backend.client(mode) as client,
        asyncio.TaskGroup() as tasks,
    ):
        calling = tasks.create_task(client.call_tool("s1:hang"))
        await until_running(server)
        calling.cancel()
        await until_running(server, 0)
    assert server.script.cancelled_count == 1


async def test_a_session_s_cancelling_ends_no_other_session_s_call() -> None:
    """Both calls have the same request id."""
    async with linked_to_one("hang", "sleep") as (_, backend, server), asyncio.TaskGroup() as tasks:
        one, other = backend.session(), backend.session()
        hanging = tasks.create_task(one.call("s1:hang"))
        sleeping = tasks.create_task(other.call("s1:sleep", {"seconds": 0.5}))
        await until_running(server, 2)
        await one.notify("notifications/cancelled", {"requestId": 1})
        assert (await sleeping)["structuredContent"] == {"seconds": 0.5}
        hanging.cancel()
        assert server.script.cancelled_count == 1


@modes
@server_eras
async def test_a_client_is_told_of_updates_of_a_resource_that_it_follows(
    mode: str, server_era: str
) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: object) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            updated.put_nowait(message.params.uri)

    async with (
        linked_to_one("touch", raw={"era": server_era, "sse": True}) as (_, backend, _),
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


async def test_a_session_is_told_of_the_resources_alone_that_it_follows_itself() -> None:
    uris = [URI, "raw://item/7"]
    async with linked_to_one("touch", raw={"sse": True}) as (_, backend, _):
        sessions = [await begun(backend, LEGACY) for _ in uris]
        for session, uri in zip(sessions, uris, strict=True):
            await session.result("resources/subscribe", {"uri": uri})
        for uri in reversed(uris):
            await backend.session().call("s1:touch", {"uri": uri})
        told = [(await session.receive())["params"]["uri"] for session in sessions]
    assert told == uris
