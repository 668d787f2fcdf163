from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.carriers.gateway import Carrier, Gateway, gateway_over
from tests.support.otlp_receiver import Receiver, export_to, receiving, sdk_variables

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
CALLER = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, carrier: Carrier) -> Iterator[Receiver]:
    with receiving() as started:
        if carrier.name == "stdio":
            lines = [f"{name}={value}" for name, value in sdk_variables(started.url).items()]
            Path(".env").write_text("\n".join(lines), encoding="utf-8")
        else:
            export_to(started.url, monkeypatch)
        yield started


@pytest.fixture
async def gateway(
    carrier: Carrier,
    receiver: Receiver,  # the exporter's variables are read at startup
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Gateway]:
    monkeypatch.chdir(tmp_path)
    async with gateway_over(carrier, "meta", "is_error") as it:
        yield it


async def test_a_call_is_one_trace_from_the_client_to_the_server(
    gateway: Gateway, receiver: Receiver
) -> None:
    client = await gateway.connect()
    seen = (await client.call("meta", _meta=CALLER))["structuredContent"]
    await receiver.received("tools/call s1:meta")
    request, call = receiver.one("tools/call s1:meta"), receiver.one("execute_tool s1:meta")
    sent = receiver.one("tools/call meta")
    assert (request.kind, request.trace_id, request.parent_id) == ("SERVER", TRACE, SPAN)
    assert request.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "s1:meta",
        "mcp.method.name": "tools/call",
        "mcp_proxy.server_id": "s1",
        "mcp_proxy.trace_id": TRACE,
    }
    assert (call.parent_id, sent.parent_id) == (request.span_id, call.span_id)
    assert seen["traceparent"] == f"00-{TRACE}-{sent.span_id}-01"


async def test_every_request_has_spans_without_values(gateway: Gateway, receiver: Receiver) -> None:
    client = await gateway.connect()
    await client.call("is_error")
    await client.request("tools/call", {"name": "no-such-tool", "arguments": {}})
    await client.request("resources/read", {"uri": "nothing://is-here"})
    await client.result("tools/list")
    await client.result("prompts/get", {"name": "plain"})
    await client.result("resources/read", {"uri": "raw://item/7"})
    argument = {"name": "who", "value": "secret-value"}
    reference = {"type": "ref/prompt", "name": "greet"}
    await client.result("completion/complete", {"ref": reference, "argument": argument})
    await receiver.received("completion/complete greet", 3)
    assert sorted((it.kind, it.name, it.error_type or "") for it in receiver.spans) == [
        ("CLIENT", "completion/complete greet", ""),
        ("CLIENT", "prompts/get plain", ""),
        ("CLIENT", "resources/read", ""),
        ("CLIENT", "tools/call is_error", "tool_error"),
        ("INTERNAL", "completion/complete greet", ""),
        ("INTERNAL", "execute_tool", "TOOL_NOT_FOUND"),
        ("INTERNAL", "execute_tool s1:is_error", "TOOL_FAILED"),
        ("INTERNAL", "get_prompt plain", ""),
        ("INTERNAL", "read_resource", ""),
        ("INTERNAL", "read_resource", "RESOURCE_NOT_FOUND"),
        ("SERVER", "completion/complete greet", ""),
        ("SERVER", "prompts/get plain", ""),
        ("SERVER", "resources/read", ""),
        ("SERVER", "resources/read", "RESOURCE_NOT_FOUND"),
        ("SERVER", "tools/call", "TOOL_NOT_FOUND"),
        ("SERVER", "tools/call s1:is_error", "TOOL_FAILED"),
        ("SERVER", "tools/list", ""),
    ]
    texts = (b"secret-value", b"raw://item/7", b"is-here", b"no-such-tool", b"it went wrong")
    assert [text for text in texts if text in receiver.raw] == []
