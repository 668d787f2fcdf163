"""Spans of calls over the HTTP API as a collector receives them, and without tracing."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mcp_tools_proxy.documents.document_file import write_document
from tests.support.builders import make_document
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.otlp_receiver import ENDPOINT, Receiver, export_to, receiving
from tests.support.redis_server import running_redis
from tests.support.service import BATCH, EXECUTE, Service, request_of, running

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
CALLER = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1", "baggage": "b=2"}
NOT_SAMPLED = {**CALLER, "traceparent": f"00-{TRACE}-{SPAN}-00"}

REQUEST = f"POST {EXECUTE}"
METADATA = "execute_tool read_doc_metadata"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as started:
        export_to(started.url, monkeypatch)
        yield started


async def execute(service: Service, tool: str = "read_doc_metadata", **headers: str) -> str:
    body = request_of(tool, {"doc_id": "doc_1"} if tool.startswith("read") else {})
    return (await service.http.post(EXECUTE, json=body, headers=headers)).headers["X-Trace-Id"]


async def test_the_span_of_a_call_is_a_child_of_its_requests_span(receiver: Receiver) -> None:
    async with running() as service:
        trace_id = await execute(service)
        await receiver.received(REQUEST)
    request, call = receiver.one(REQUEST), receiver.one(METADATA)
    assert (request.kind, request.parent_id, request.trace_id) == ("SERVER", "", trace_id)
    assert (call.kind, call.parent_id, call.trace_id) == ("INTERNAL", request.span_id, trace_id)
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": EXECUTE,
        "http.response.status_code": 200,
        "mcp_proxy.trace_id": trace_id,
    }
    assert call.attributes.pop("mcp_proxy.result_bytes")
    assert call.attributes.pop("mcp_proxy.tokens")
    assert call.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read_doc_metadata",
        "mcp_proxy.document_id": "doc_1",
        "mcp_proxy.tenant_id": "tenant_1",
    }
    assert not request.has_error
    assert not call.has_error


async def test_the_resource_is_this_service_unless_a_variable_names_another(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(app_name="gateway-7") as service:
        await execute(service)
        await receiver.received(REQUEST)
    own = receiver.resource["service.name"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "theirs")
    async with running(app_name="gateway-7") as service:
        await execute(service)
        await receiver.received(REQUEST, 2)
    assert (own, receiver.resource["service.name"]) == ("gateway-7", "theirs")


async def test_the_span_of_a_search_is_a_child_of_its_call(receiver: Receiver) -> None:
    async with running() as service:
        await service.result("doc_local_search", {"doc_id": "doc_1", "query": "budget"})
        await receiver.received(REQUEST)
    call = receiver.one("execute_tool doc_local_search")
    assert receiver.children(call) == ["document.read", "document.search"]


async def test_only_the_first_read_of_a_document_has_a_span(receiver: Receiver) -> None:
    write_document(Path("documents"), make_document(doc_id="mine"), replace=False)
    async with running() as service:
        for _ in range(2):
            await service.result("read_doc_metadata", {"doc_id": "mine"})
        await receiver.received(REQUEST, 2)
    first, second = receiver.named(METADATA)
    assert (receiver.children(first), receiver.children(second)) == (["document.read"], [])
    assert receiver.one("document.read").attributes == {"mcp_proxy.document_id": "mine"}


async def test_every_call_of_a_batch_has_its_own_span(receiver: Receiver) -> None:
    calls = [
        {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}},
        {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "unknown"}},
    ]
    async with running() as service:
        user = {"user_id": "u", "tenant_id": "tenant_1"}
        await service.http.post(BATCH, json={"calls": calls, "user": user})
        await receiver.received(f"POST {BATCH}")
    request = receiver.one(f"POST {BATCH}")
    assert receiver.children(request) == [METADATA] * 2
    assert sorted(str(span.error_type) for span in receiver.named(METADATA)) == [
        "DOCUMENT_NOT_FOUND",
        "None",
    ]
    assert request.error_type is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"tool_name": "read_doc_metadata"}, "INVALID_REQUEST"),
        ({"tool_name": 7, "user": {"user_id": "u", "tenant_id": "t"}}, "INVALID_REQUEST"),
    ],
)
async def test_a_refused_request_has_its_code(
    receiver: Receiver, body: dict[str, object], code: str
) -> None:
    async with running() as service:
        await service.http.post(EXECUTE, json=body)
        await receiver.received(REQUEST)
    request = receiver.one(REQUEST)
    assert (request.error_type, request.has_error, request.events) == (code, False, 0)


async def test_a_failed_call_has_its_code_but_no_text(receiver: Receiver) -> None:
    async with running() as service:
        await service.execute("read_doc_metadata", {"doc_id": "d" * 40})
        await service.execute("no_such_tool_of_ours")
        await receiver.received(REQUEST, 2)
    call, unknown = receiver.one(METADATA), receiver.one("execute_tool")
    assert (call.error_type, call.has_error) == ("DOCUMENT_NOT_FOUND", True)
    assert (unknown.error_type, unknown.has_error) == ("TOOL_NOT_FOUND", True)
    assert {span.status_text for span in receiver.spans} == {""}
    assert b"no_such_tool_of_ours" not in receiver.raw
    assert b"dddddddd" not in receiver.raw


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics"])
async def test_probes_create_no_span(receiver: Receiver, path: str) -> None:
    async with running() as service:
        await service.http.get(path)
        await execute(service)
        await receiver.received(REQUEST)
    assert [span.name for span in receiver.spans if span.kind == "SERVER"] == [REQUEST]


async def test_the_callers_span_is_the_parent(receiver: Receiver) -> None:
    async with running() as service:
        assert await execute(service, **CALLER) == TRACE
        await receiver.received(REQUEST)
    request = receiver.one(REQUEST)
    assert (request.trace_id, request.parent_id, request.links) == (TRACE, SPAN, ())


async def test_an_untrusted_callers_span_is_a_link(receiver: Receiver) -> None:
    async with running(trust_traceparent=False) as service:
        assert await execute(service, **CALLER) == TRACE
        assert await execute(service, **NOT_SAMPLED) == TRACE
        await receiver.received(REQUEST, 2)
    for request in receiver.named(REQUEST):
        assert (request.parent_id, request.links) == ("", ((TRACE, SPAN),))
        assert request.trace_id != TRACE
        assert request.attributes["mcp_proxy.trace_id"] == TRACE


async def test_a_caller_that_does_not_sample_gets_no_spans(receiver: Receiver) -> None:
    async with running() as service:
        await execute(service, **NOT_SAMPLED)
        await execute(service)
        await receiver.received(REQUEST)
    assert TRACE not in {span.trace_id for span in receiver.spans}


def config_of(server: RawServer) -> Config:
    preset = make_preset(tools=[("s1", "meta"), ("s1", "is_error")])
    return Config(servers={"s1": server.entry}, presets=[preset])


async def sent_meta(service: Service, **headers: str) -> dict[str, str]:
    """Return the ``_meta`` that a server received for a request with these headers."""
    response = await service.http.post(EXECUTE, json=request_of("s1:meta"), headers=headers)
    meta: dict[str, str] = response.json()["result"]["structured_content"]
    return meta


async def test_a_server_receives_the_span_of_its_request(receiver: Receiver) -> None:
    async with running_raw() as raw, running(config=config_of(raw)) as service:
        meta = await sent_meta(service, **CALLER)
        await receiver.received(REQUEST)
    request, call = receiver.one(REQUEST), receiver.one("execute_tool s1:meta")
    sent = receiver.one("tools/call meta")
    assert (call.parent_id, sent.parent_id) == (request.span_id, call.span_id)
    assert sent.kind == "CLIENT"
    assert meta["traceparent"] == f"00-{TRACE}-{sent.span_id}-01"
    assert (meta["tracestate"], meta["baggage"]) == ("a=1", "b=2")
    assert sent.attributes.pop("server.port")
    assert sent.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "meta",
        "mcp.method.name": "tools/call",
        "mcp_proxy.server_id": "s1",
        "network.transport": "tcp",
        "server.address": "127.0.0.1",
    }


async def test_a_server_error_is_a_failed_request(receiver: Receiver) -> None:
    async with running_raw() as raw, running(config=config_of(raw)) as service:
        await service.execute("s1:is_error")
        await receiver.received(REQUEST)
    assert receiver.one("tools/call is_error").error_type == "tool_error"
    assert receiver.one("execute_tool s1:is_error").error_type == "TOOL_FAILED"


async def test_a_server_receives_a_new_context_for_an_untrusted_caller(
    receiver: Receiver,
) -> None:
    async with (
        running_raw() as raw,
        running(config=config_of(raw), trust_traceparent=False) as service,
    ):
        meta = await sent_meta(service, **CALLER)
        await receiver.received(REQUEST)
    sent = receiver.one("tools/call meta")
    assert meta["traceparent"] == f"00-{sent.trace_id}-{sent.span_id}-01"
    assert "tracestate" not in meta


async def test_without_sampling_no_span_is_created_and_the_context_is_unsampled(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with running_raw() as raw, running(config=config_of(raw)) as service:
        own = await sent_meta(service)
        callers = await sent_meta(service, **CALLER)
    version, trace_id, span_id, flags = own["traceparent"].split("-")
    assert (version, len(trace_id), len(span_id), flags) == ("00", 32, 16, "00")
    assert callers["traceparent"].startswith(f"00-{TRACE}-")
    assert callers["traceparent"].endswith("-00")
    assert SPAN not in callers["traceparent"]
    assert receiver.requests == 0


@pytest.mark.parametrize(
    "off",
    [
        {ENDPOINT: ""},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=["no endpoint", "disabled", "no exporter"],
)
async def test_without_tracing_the_callers_context_is_forwarded_unchanged(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, off: dict[str, str]
) -> None:
    for name, value in off.items():
        monkeypatch.setenv(name, value)
    async with running_raw() as raw, running(config=config_of(raw)) as service:
        meta = await sent_meta(service, **CALLER)
    assert {name: meta[name] for name in CALLER} == CALLER
    assert receiver.requests == 0


async def test_a_retrieval_request_is_a_span_whose_context_is_sent(receiver: Receiver) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"chunks": [{"chunk_id": "c5", "text": "here"}]})

    async with running(
        retrieval_transport=httpx.MockTransport(answer),
        retrieval_window_url="https://retrieval.internal/window?key=secret",
    ) as service:
        window = {"doc_id": "doc_1", "anchor_chunk_id": "c5"}
        await service.result("read_chunk_window", window)
        await receiver.received(REQUEST)
    call, request = receiver.one("execute_tool read_chunk_window"), receiver.one("POST")
    assert (request.parent_id, request.kind) == (call.span_id, "CLIENT")
    assert request.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "retrieval.internal",
        "server.port": 443,
    }
    assert sent[0].headers["traceparent"] == f"00-{request.trace_id}-{request.span_id}-01"


async def test_without_tracing_retrieval_receives_no_context(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(404)

    async with running(
        retrieval_transport=httpx.MockTransport(answer),
        retrieval_window_url="http://retrieval.internal/window",
    ) as service:
        window = {"doc_id": "doc_1", "anchor_chunk_id": "c5"}
        body = request_of("read_chunk_window", window)
        await service.http.post(EXECUTE, json=body, headers=CALLER)
    assert "traceparent" not in sent[0].headers


async def test_the_span_of_a_budget_check_in_redis_is_a_child_of_the_call(
    receiver: Receiver, patient_limits: None, tmp_path: Path
) -> None:
    with running_redis(tmp_path) as redis:
        async with running(unlimited=False, rate_limit_storage_url=redis.url) as service:
            await execute(service)
            await receiver.received(REQUEST)
    call = receiver.one(METADATA)
    assert receiver.children(call) == ["document.read", "limits.count", "limits.count"]
    assert receiver.named("limits.count")[0].attributes == {"db.system.name": "redis"}
