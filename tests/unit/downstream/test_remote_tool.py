import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

import pytest

from mcp_tools_proxy.domain.client import NULL_CLIENT, Client
from mcp_tools_proxy.domain.errors import (
    InvalidArguments,
    ProxyError,
    ServerUnavailable,
    ToolFailed,
)
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.policy.aliases import alias_of
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.tracing import TRACE_ID_KEY
from tests.support.captured_logs import capture_logs
from tests.support.fakes import FakeClient
from tests.support.tables import each_row
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import (
    Answer,
    FakeServer,
    answering,
    failing_with,
    hang,
    tool,
)
from tests.unit.downstream.observed_session import until
from tests.unit.downstream.offered_components import offered, use

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TEXT = {"content": [{"type": "text", "text": "done"}]}


async def sent_meta(**fields: Any) -> dict[str, Any]:
    server = FakeServer(tool("add"))
    async with offered(server) as (components, _):
        await use(components.tools[0], **fields)
    return cast("dict[str, Any]", server.calls()[0]["_meta"])


async def failure(answer: Answer, **fields: Any) -> ProxyError:
    server = FakeServer(tool("add", **fields))
    server.answers["tools/call"] = answer
    async with offered(server) as (components, _):
        with pytest.raises(ProxyError) as caught:
            await use(components.tools[0])
    return caught.value


async def test_too_many_blocks_are_refused_before_reading() -> None:
    error = await failure(answering({"content": [1] * 60_000}))
    assert (error.code, error.details) == (
        "RESULT_TOO_LARGE",
        {"parts": 60_000, "max_result_bytes": 1_048_576},
    )


async def test_the_content_of_an_error_is_limited_like_a_result() -> None:
    image = {"type": "image", "data": "A" * 2_000_000, "mimeType": "image/png"}
    text = {"type": "text", "text": "no disk"}
    error = await failure(answering({"content": [text, image], "isError": True}))
    assert (error.code, "no disk" in error.message) == ("RESULT_TOO_LARGE", True)


async def test_a_tool_has_the_description_of_its_server() -> None:
    raw = tool("add", description="Adds.", title="Add", annotations={"readOnlyHint": False})
    async with offered(FakeServer(raw)) as (components, _):
        spec = components.tools[0].spec
        assert spec.as_mcp == {**raw, "name": "notes:add"}


async def test_a_tool_has_the_alias_of_its_pair() -> None:
    async with offered(FakeServer(tool("add"))) as (components, _):
        assert components.tools[0].spec.alias == alias_of("notes", "add")


async def test_a_tool_without_description_and_schema_gets_empty_ones() -> None:
    async with offered(FakeServer({"name": "add"})) as (components, _):
        spec = components.tools[0].spec
        assert (spec.description, spec.input_schema) == ("", {"type": "object"})


@pytest.mark.requirement("F-06")
@each_row("name", ["add", "a:b", "é x"])
async def test_the_server_receives_the_bare_name_and_the_unchanged_arguments(name: str) -> None:
    server = FakeServer(tool(name))
    arguments = {"a": "8", "b": None, "c": [1, {"d": 2.0}]}
    async with offered(server) as (components, _):
        await use(components.tools[0], arguments=arguments)
    sent = server.calls()[0]
    assert (sent["name"], sent["arguments"]) == (name, arguments)


async def test_arguments_are_checked_before_anything_is_sent() -> None:
    schema = {"type": "object", "required": ["a"]}
    server = FakeServer(tool("add", inputSchema=schema))
    async with offered(server) as (components, _):
        with pytest.raises(InvalidArguments, match='"a" is missing'):
            await use(components.tools[0])
    assert server.calls() == []


async def test_the_trace_id_is_sent() -> None:
    assert await sent_meta() == {TRACE_ID_KEY: "trace-1"}


async def test_the_callers_trace_context_is_sent_unchanged() -> None:
    context = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-00", "tracestate": "a=b"}
    meta = await sent_meta(trace_id=TRACE_ID, trace_context=context)
    assert meta == {TRACE_ID_KEY: TRACE_ID, **context}


async def test_a_trace_id_that_w3c_accepts_becomes_a_traceparent() -> None:
    meta = await sent_meta(trace_id=TRACE_ID)
    version, trace_id, span_id, flags = meta["traceparent"].split("-")
    assert (version, trace_id, len(span_id), flags) == ("00", TRACE_ID, 16, "01")


async def test_a_result_is_counted() -> None:
    async with offered(FakeServer(tool("add"))) as (components, fleet):
        await use(components.tools[0])
        labels = {"server": "notes", "kind": "tool", "code": "OK"}
        sample = fleet.metrics.registry.get_sample_value
        assert (
            sample("mcp_proxy_server_calls_total", labels),
            sample("mcp_proxy_server_call_seconds_count", {"server": "notes"}),
        ) == (1, 1)


@pytest.mark.requirement("F-21")
async def test_an_error_result_is_a_failure_that_keeps_its_content() -> None:
    error = await failure(answering({**TEXT, "isError": True}))
    assert (error.code, error.details) == ("TOOL_FAILED", TEXT)


@pytest.mark.requirement("F-21")
async def test_an_error_of_the_server_is_a_failure_that_quotes_its_message() -> None:
    error = await failure(failing_with(JsonRpcError(-32603, "bad\nthings")))
    assert (error.message, error.details) == (
        r'notes:add failed: its server answered with error -32603: "bad\nthings"',
        {"code": -32603},
    )


async def test_a_server_that_asks_for_input_fails_the_call() -> None:
    error = await failure(answering({"resultType": "input_required", "inputRequests": {}}))
    assert (type(error), "asks for more input" in error.message) == (ToolFailed, True)


@each_row("client", [NULL_CLIENT, FakeClient()], ids=["nobody", "older-era"])
async def test_a_server_that_only_requests_its_state_is_called_again_after_a_pause(
    client: Client,
) -> None:
    at: list[float] = []

    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        at.append(clock())
        assert params.get("requestState", "0") == str(len(at) - 1)
        if len(at) == 7:
            return TEXT
        return {"resultType": "input_required", "requestState": str(len(at))}

    server = FakeServer(tool("add"))
    server.answers["tools/call"] = answer
    async with offered(server) as (components, _):
        result = await use(components.tools[0], client=client)
    assert result.value["content"] == TEXT["content"]
    pauses = [round(later - before, 3) for before, later in pairwise(at)]
    assert pauses == [0.05, 0.1, 0.2, 0.25, 0.25, 0.25]


async def test_a_server_that_requests_its_state_forever_fails_the_call() -> None:
    server = FakeServer(tool("add"))
    again = {"resultType": "input_required", "requestState": "s"}
    server.answers["tools/call"] = answering(again)
    async with offered(server) as (components, _):
        with pytest.raises(ToolFailed, match="more than 10 times"):
            await use(components.tools[0])
    assert len(server.calls()) == 11


@each_row("hint", ["readOnlyHint", "idempotentHint"])
async def test_a_tool_declared_as_repeatable_is_retried(hint: str) -> None:
    server = FakeServer(tool("add", annotations={hint: True}))
    server.answers["tools/call"] = failing_with(ConnectionFailure("connection reset"))
    async with offered(server) as (components, _):
        with pytest.raises(ServerUnavailable):
            await use(components.tools[0])
    assert len(server.calls()) == 2


@each_row(
    "annotations",
    [
        {},
        {"readOnlyHint": False},
        {"readOnlyHint": "yes"},
        {"destructiveHint": True},
        {"openWorldHint": True},
    ],
)
async def test_other_tools_are_not_retried(annotations: dict[str, Any]) -> None:
    server = FakeServer(tool("add", annotations=annotations))
    server.answers["tools/call"] = failing_with(ConnectionFailure("connection reset"))
    async with offered(server) as (components, _):
        with pytest.raises(ServerUnavailable):
            await use(components.tools[0])
    assert len(server.calls()) == 1


@pytest.mark.requirement("F-19")
async def test_an_undecodable_result_is_logged_without_its_content() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = answering({"content": "hunter2"})
    with capture_logs() as logs:
        async with offered(server) as (components, _):
            await use(components.tools[0])
    [line] = [line for line in logs if line["event"] == "facade_to_llm.decode_failed"]
    assert (line["toolName"], line["downstreamTool"], "hunter2" in str(line)) == (
        "notes:add",
        "add",
        False,
    )


@pytest.mark.requirement("F-20")
@each_row(
    ("answer", "last"),
    [
        (answering(TEXT), "downstream.response"),
        (failing_with(JsonRpcError(-1, "hunter2")), "downstream.response.error"),
    ],
)
async def test_the_exchange_with_the_server_is_logged_in_two_lines_without_values(
    answer: Answer, last: str
) -> None:
    server = FakeServer(tool("add", inputSchema={"type": "object", "properties": {"a": {}}}))
    server.answers["tools/call"] = answer
    with capture_logs() as logs:
        async with offered(server) as (components, _):
            with suppress(ToolFailed):
                await use(components.tools[0], arguments={"a": "hunter2", "b": 1})
    lines = [line for line in logs if line.get("resolvedServerId") == "notes"]
    assert (
        [line["event"] for line in lines],
        lines[0]["arguments"],
        {line["trace_id"] for line in lines},
        "hunter2" in str(lines),
    ) == (["facade_to_downstream.request", last], ["a"], {"trace-1"}, False)


@each_row(
    ("answer", "code"),
    [
        (answering({**TEXT, "isError": True}), "TOOL_FAILED"),
        (failing_with(JsonRpcError(-32603, "boom")), "TOOL_FAILED"),
        (answering({"content": [1] * 60_000}), "RESULT_TOO_LARGE"),
        (failing_with(ConnectionFailure("cut off")), "SERVER_UNAVAILABLE"),
        (failing_with(ZeroDivisionError("a defect")), "INTERNAL_ERROR"),
    ],
)
async def test_a_failed_call_is_counted_with_its_error_code(answer: Answer, code: str) -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = answer
    async with offered(server) as (components, servers):
        with suppress(ProxyError, ZeroDivisionError):
            await use(components.tools[0])
        labels = {"server": "notes", "kind": "tool", "code": code}
        sample = servers.metrics.registry.get_sample_value
        assert sample("mcp_proxy_server_calls_total", labels) == 1


async def test_a_cancelled_call_is_counted_as_cancelled() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = hang
    async with offered(server) as (components, fleet), asyncio.TaskGroup() as tasks:
        caller = tasks.create_task(use(components.tools[0]))
        await until(server.calls)
        caller.cancel()
        await asyncio.wait([caller])
        labels = {"server": "notes", "kind": "tool", "code": "CANCELLED"}
        value = fleet.metrics.registry.get_sample_value("mcp_proxy_server_calls_total", labels)
        assert value == 1


@pytest.mark.requirement("W-12")
async def test_the_callers_meta_is_sent_together_with_the_gateways() -> None:
    meta = await sent_meta(meta={"com.x/y": {"é": [1]}, "plain": None}, trace_id=TRACE_ID)
    assert (meta["com.x/y"], meta["plain"], meta[TRACE_ID_KEY]) == ({"é": [1]}, None, TRACE_ID)


@pytest.mark.requirement("W-12")
async def test_meta_keys_reserved_by_mcp_are_not_accepted_from_a_caller() -> None:
    key = "io.modelcontextprotocol/logLevel"
    assert key not in await sent_meta(meta={key: "theirs"})


@pytest.mark.requirement("W-12")
async def test_meta_keys_of_the_gateway_override_the_callers() -> None:
    theirs = {TRACE_ID_KEY: "theirs", "traceparent": "theirs"}
    ours = {"traceparent": "ours"}
    meta = await sent_meta(meta=theirs, trace_context=ours)
    assert (meta[TRACE_ID_KEY], meta["traceparent"]) == ("trace-1", "ours")


async def test_lone_surrogates_in_the_callers_meta_are_handled() -> None:
    assert (await sent_meta(meta={"com.x/y": "a\ud800"}))[
        "com.x/y"
    ] == "a" + 3 * "\N{REPLACEMENT CHARACTER}"
