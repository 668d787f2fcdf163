"""Log events of calls over MCP, and the errors that their clients receive (A.7)."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import Served, serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.raw_mcp_client import ERAS, PREFIX, RawMcpClient, in_front_of_one, raw_client
from tests.support.service import eventually

eras = pytest.mark.parametrize("era", ERAS)

SECRET = "hush-hush"
DENIED = "proxy.tool.denied"


class Logged(NamedTuple):
    """A client, and the log lines of its calls."""

    client: RawMcpClient
    lines: list[Mapping[str, Any]]

    def events(self, trace_id: str) -> list[str]:
        return [line["event"] for line in self.lines if line.get("trace_id") == trace_id]


@asynccontextmanager
async def logged(era: str, *tools: str, **options: Any) -> AsyncIterator[Logged]:
    with capture_logs() as lines:
        async with in_front_of_one(tools, **options) as (served, _):
            yield Logged(await raw_client(served, era), lines)  # type: ignore[arg-type]


def trace_id_of(result: Json) -> str:
    return str(result["_meta"][f"{PREFIX}traceId"])


@eras
@pytest.mark.requirement("F-20")
async def test_a_call_is_logged_in_four_events_under_the_trace_id_of_its_result(era: str) -> None:
    async with logged(era, "echo") as it:
        result = await it.client.call("echo", {"text": SECRET})
    assert it.events(trace_id_of(result)) == [
        "llm_to_facade.request",
        "facade_to_downstream.request",
        "downstream.response",
        "facade_to_llm.response",
    ]


@eras
@pytest.mark.requirement("F-21")
async def test_a_call_that_fails_at_its_server_is_logged_and_is_an_error(era: str) -> None:
    async with logged(era, "error") as it:
        result = await it.client.call("error", {"message": "It broke."})
    assert (it.events(trace_id_of(result))[-2:], result["isError"], bool(result["content"])) == (
        ["downstream.response.error", "facade_to_llm.error"],
        True,
        True,
    )


@eras
@pytest.mark.requirement("F-22")
async def test_a_denied_call_is_logged_with_its_tool_and_the_reason(era: str) -> None:
    async with logged(era, "echo") as it:
        result = await it.client.call("hang")
    (line,) = [line for line in it.lines if line["event"] == DENIED]
    assert (line["toolName"], bool(line["reason"]), result["isError"]) == ("s1:hang", True, True)
    assert line["reason"] not in json.dumps(result)


@eras
@pytest.mark.requirement("F-23")
async def test_no_log_line_contains_a_value_of_an_argument_or_result(era: str) -> None:
    async with logged(era, "echo", "error") as it:
        await it.client.call("echo", {"text": SECRET})
        await it.client.call("error", {"message": SECRET})
        await it.client.call("nosuch", {"text": SECRET})
        await it.client.request("prompts/get", {"name": "greet", "arguments": {"name": SECRET}})
        await it.client.request("resources/read", {"uri": f"raw://item/{SECRET}"})
        await it.client.request(
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "name", "value": SECRET},
            },
        )
    assert [line["event"] for line in it.lines if SECRET in str(line)] == []


@eras
@pytest.mark.requirement("F-19")
async def test_an_undecodable_result_is_logged(era: str) -> None:
    async with logged(era, "undecodable") as it:
        result = await it.client.call("undecodable")
    assert [e for e in it.events(trace_id_of(result)) if "decode" in e] == [
        "facade_to_llm.decode_failed"
    ]


@asynccontextmanager
async def one_up_one_down() -> AsyncIterator[tuple[Served, RawServer]]:
    """Serve one available and one unavailable server."""
    async with running_raw(only=("echo",)) as up, running_raw(only=("echo",)) as down:
        await down.stop()
        preset = make_preset(tools=[("up", "echo"), ("down", "echo")])
        config = Config(servers={"up": up.entry, "down": down.entry}, presets=[preset])
        async with serving(config=config) as served:
            yield served, down


@eras
@pytest.mark.requirement("F-24")
async def test_the_facade_serves_while_a_server_is_down(era: str) -> None:
    async with one_up_one_down() as (served, _):
        client = await raw_client(served, era)
        tools = (await client.request("tools/list"))["result"]["tools"]
        up = await client.request("tools/call", {"name": "up:echo", "arguments": {"text": "x"}})
        down = await client.request("tools/call", {"name": "down:echo"})
    assert [tool["name"] for tool in tools if ":" in tool["name"]] == ["up:echo"]
    assert (up["result"]["structuredContent"], down["result"]["isError"]) == ({"text": "x"}, True)


@eras
@pytest.mark.requirement("F-24", "P-22")
async def test_a_recovered_server_is_listed_on_the_same_connection(era: str) -> None:
    async with one_up_one_down() as (served, down):
        client = await raw_client(served, era)
        await down.start()

        async def is_listed() -> bool:
            tools = (await client.request("tools/list"))["result"]["tools"]
            return "down:echo" in [tool["name"] for tool in tools]

        await eventually(is_listed)
