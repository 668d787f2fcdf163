import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.carriers.clients import McpClient
from tests.carriers.gateway import Carrier, gateway_over, modern_carriers
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.service import eventually

ALL = ["prompts", "resources", "tools"]
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


async def kinds(messages: AsyncIterator[Json], *wanted: str) -> list[str]:
    """Return the lists that the messages report as changed, once they include ``wanted``."""
    received: list[str] = []
    async with asyncio.timeout(BOUND_S):
        while not set(wanted) <= set(received):
            message = await anext(messages)
            kind, _, changed = message["method"].removeprefix("notifications/").partition("/")
            assert changed == "list_changed", message
            received.append(kind)
    return sorted(received)


async def list_all(client: McpClient) -> None:
    for method in LISTS:
        await client.result(method)


async def downstream_tools(client: McpClient) -> list[str]:
    tools = (await client.result("tools/list"))["tools"]
    return [tool["name"] for tool in tools if ":" in tool["name"]]


@pytest.mark.requirement("W-19", "P-20", "P-21", "P-22", "F-12")
async def test_an_edited_preset_is_notified_and_listed_on_the_same_connection(
    carrier: Carrier,
) -> None:
    async with gateway_over(carrier, "echo") as gateway:
        client = await gateway.connect()
        await list_all(client)
        async with client.list_changes() as changes:
            gateway.show("sleep", prompts=[], resources=[])
            assert await kinds(changes, *ALL) == ALL
            assert await downstream_tools(client) == ["s1:whoami", "s1:sleep"]
            assert (await client.result("prompts/list"))["prompts"] == []


@pytest.mark.requirement("W-19")
async def test_only_the_lists_that_changed_are_notified(carrier: Carrier) -> None:
    """A wrong notification of the first change would arrive before that of the second."""
    async with gateway_over(carrier, "echo") as gateway:
        client = await gateway.connect()
        await list_all(client)
        async with client.list_changes() as changes:
            gateway.show("echo", prompts=[])
            assert await kinds(changes, "prompts") == ["prompts"]
            gateway.show("echo")
            assert await kinds(changes, "prompts") == ["prompts"]


@pytest.mark.requirement("W-19")
async def test_items_that_a_server_adds_to_the_view_are_notified(carrier: Carrier) -> None:
    async with gateway_over(carrier, "late", only=("whoami",)) as gateway:
        client = await gateway.connect()
        await list_all(client)
        async with client.list_changes() as changes:
            gateway.server.script.swap("late")
            await kinds(changes, "tools")
            assert "s1:late" in await downstream_tools(client)


@modern_carriers
@pytest.mark.requirement("W-19")
async def test_a_modern_client_that_does_not_listen_is_not_notified(carrier: Carrier) -> None:
    async with gateway_over(carrier, "echo") as gateway:
        listening, silent = await gateway.connect(), await gateway.connect()
        await list_all(silent)
        async with listening.list_changes() as changes:
            gateway.show("sleep")
            if carrier.name != "stdio":  # each client has its own gateway
                await kinds(changes, "tools")

            async def is_listed() -> bool:
                return await downstream_tools(silent) == ["s1:whoami", "s1:sleep"]

            await eventually(is_listed)
            (only,) = await silent.all_messages("sleep", {"seconds": 0})
    assert "result" in only
