"""Health, readiness, metrics, the tools list."""

import json
import shutil
from pathlib import Path

import anyio
import httpx
import pytest

from mcp_tools_proxy.gateway.lifecycle import Phase
from mcp_tools_proxy.registry.registry import Registry
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.fakes import FakeTool
from tests.support.local_tools import LISTED_TOOLS
from tests.support.service import EXECUTE, TOOLS, Service, request_of, running


async def test_health_returns_exactly_ok(service: Service) -> None:
    response = await service.http.get("/health")
    assert (response.status_code, response.content) == (200, b'{"status":"ok"}')


async def test_a_started_service_is_ready(service: Service) -> None:
    response = await service.http.get("/health/ready")
    assert (response.status_code, response.json()["status"]) == (200, "ready")


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.STOPPING])
async def test_a_starting_or_stopping_service_is_not_ready(service: Service, phase: Phase) -> None:
    service.gateway.lifecycle.phase = phase
    response = await service.http.get("/health/ready")
    assert (response.status_code, response.json()["status"]) == (503, phase.value)


async def test_a_stopping_service_still_serves_health(service: Service) -> None:
    service.gateway.lifecycle.phase = Phase.STOPPING
    assert (await service.http.get("/health")).json() == {"status": "ok"}


async def test_a_stopping_service_refuses_new_calls(service: Service) -> None:
    service.gateway.lifecycle.phase = Phase.STOPPING
    response = await service.http.post(EXECUTE, json=request_of("list_available_tools"))
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["retryable"]) == (503, "SHUTTING_DOWN", True)


async def test_a_stopping_service_refuses_a_batch_as_a_whole(service: Service) -> None:
    service.gateway.lifecycle.phase = Phase.STOPPING
    body = {"calls": [{"tool_name": "x"}], "user": {"user_id": "u", "tenant_id": "t"}}
    assert (await service.http.post(f"{EXECUTE}/batch", json=body)).status_code == 503


async def test_the_text_of_an_internal_error_is_in_the_log_only(service: Service) -> None:
    no_unicode = FakeTool(properties=("\ud800",))
    service.gateway.registry.replace(Registry.build([no_unicode]))
    with capture_logs() as lines:
        response = await service.http.get(TOOLS, headers={"X-Trace-Id": "t-1"})
    assert (response.status_code, response.json()) == (
        500,
        {
            "status": "error",
            "error": {
                "code": "INTERNAL_ERROR",
                "message": "internal error; tell the operator the trace_id: the log has it",
            },
            "trace_id": "t-1",
        },
    )
    crashes = [it for it in lines if it["event"] == "request.crashed"]
    assert [(it["trace_id"], "surrogates" in repr(it["exc_info"])) for it in crashes] == [
        ("t-1", True)
    ]


async def test_an_invalid_document_file_degrades_but_stays_ready(tmp_path: Path) -> None:
    folder = tmp_path / "documents" / "t"
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text("{")
    async with running(documents_path=tmp_path / "documents") as service:
        response = await service.http.get("/health/ready")
        assert (response.status_code, response.json()["status"]) == (200, "degraded")


async def test_a_file_in_another_tenants_folder_is_not_served_and_degrades(tmp_path: Path) -> None:
    folder = tmp_path / "documents" / "mallory"
    folder.mkdir(parents=True)
    foreign = {"doc_id": "d", "tenant_id": "tenant_1", "title": "Forged", "pages": ["forged"]}
    (folder / "d.json").write_text(json.dumps(foreign))
    async with running(documents_path=tmp_path / "documents") as service:
        response = await service.http.get("/health/ready")
        body = response.json()
        assert (response.status_code, body["status"]) == (200, "degraded")
        assert (body["checks"]["documents"]["files_ignored"]) == 1
        read = await service.execute("read_doc_metadata", {"doc_id": "d"})
        assert read["error"]["code"] == "DOCUMENT_NOT_FOUND"
        assert "mcp_proxy_document_errors 1.0" in (await service.http.get("/metrics")).text


async def test_a_missing_documents_folder_degrades_and_its_documents_stay_available(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "documents" / "tenant_1"
    folder.mkdir(parents=True)
    document = {"doc_id": "d", "tenant_id": "tenant_1", "title": "D", "pages": ["text"]}
    (folder / "d.json").write_text(json.dumps(document))
    async with running(documents_path=tmp_path / "documents") as service:

        async def state() -> tuple[object, object]:
            line = (await service.http.get("/health/ready")).json()["checks"]["documents"]
            return line["status"], line["folder"]

        assert await state() == ("ok", "present")
        shutil.rmtree(tmp_path / "documents")
        with anyio.fail_after(BOUND_S):
            while await state() != ("degraded", "vanished"):  # noqa: ASYNC110 - readiness is asked
                await anyio.sleep(0.05)
        read = await service.execute("read_doc_metadata", {"doc_id": "d"})
        assert read["status"] == "ok"
        folder.mkdir(parents=True)
        with anyio.fail_after(BOUND_S):
            while await state() != ("ok", "present"):  # noqa: ASYNC110 - readiness is asked
                await anyio.sleep(0.05)


async def test_a_documents_folder_that_never_existed_is_ok(tmp_path: Path) -> None:
    async with running(documents_path=tmp_path / "none") as service:
        line = (await service.http.get("/health/ready")).json()["checks"]["documents"]
        assert (line["status"], line["folder"]) == ("ok", "missing")


async def test_a_failed_retrieval_degrades_but_stays_ready() -> None:
    async with running(
        retrieval_transport=httpx.MockTransport(lambda _: httpx.Response(500)),
        retrieval_window_url="http://retrieval/window",
    ) as service:
        await service.execute("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "c"})
        response = await service.http.get("/health/ready")
        assert (response.status_code, response.json()["checks"]["retrieval"]["status"]) == (
            200,
            "degraded",
        )


async def test_an_unreachable_limit_store_degrades_but_stays_ready() -> None:
    async with running(rate_limit_storage_url="redis://127.0.0.1:1", rate_limit_calls=5) as service:
        await service.execute("read_doc_metadata", {"doc_id": "doc_1"})
        response = await service.http.get("/health/ready")
        assert (response.status_code, response.json()["checks"]["limit_store"]["status"]) == (
            200,
            "degraded",
        )


async def test_calls_are_counted_by_tool_and_code(service: Service) -> None:
    await service.execute("read_doc_metadata", {"doc_id": "doc_1"})
    await service.execute("read_doc_metadata", {"doc_id": "nope"})
    exposition = (await service.http.get("/metrics")).text
    assert [
        line in exposition
        for line in (
            'mcp_proxy_calls_total{code="OK",tool="read_doc_metadata"} 1.0',
            'mcp_proxy_calls_total{code="DOCUMENT_NOT_FOUND",tool="read_doc_metadata"} 1.0',
            'mcp_proxy_call_seconds_count{tool="read_doc_metadata"} 2.0',
            "mcp_proxy_calls_in_flight 0.0",
        )
    ] == [True] * 4


async def test_an_unknown_tool_has_one_label(service: Service) -> None:
    for name in ("nope", "x" * 500, "a:b"):
        await service.execute(name)
    exposition = (await service.http.get("/metrics")).text
    assert 'tool="unknown"' in exposition
    assert not any(f'tool="{name}"' in exposition for name in ("nope", "a:b"))


async def test_the_tools_list_has_the_format_of_mcp(service: Service) -> None:
    answer = (await service.http.get("/internal/mcp/tools")).json()
    assert (answer["format"], [tool["name"] for tool in answer["tools"]]) == (
        "mcp",
        [*LISTED_TOOLS],
    )


async def test_every_listed_tool_has_description_and_schema(service: Service) -> None:
    tools = (await service.http.get("/internal/mcp/tools")).json()["tools"]
    whole = [it["name"] for it in tools if it["description"] and it["inputSchema"]["type"]]
    assert whole == [*LISTED_TOOLS]


async def test_listed_descriptions_include_the_active_limits() -> None:
    async with running(
        max_pages_per_call=3,
        max_text_bytes=777,
        max_window_radius=1,
        retrieval_window_url="local",
    ) as service:
        text = (await service.http.get("/internal/mcp/tools")).text
        assert all(
            limit in text
            for limit in ("at most 3 in one call", "777 bytes", "at most 1 on each side")
        )


async def test_the_route_and_list_available_tools_agree(service: Service) -> None:
    listed = (await service.http.get("/internal/mcp/tools")).json()["tools"]
    result = await service.result("list_available_tools")
    assert [tool["name"] for tool in listed] == result["tools"]


async def test_definitions_have_name_alias_description_and_schemas(service: Service) -> None:
    result = await service.result("list_available_tools", {"format": "mcp"})
    definitions = result["definitions"]
    fields = {"name", "alias", "description", "input_schema", "output_schema"}
    assert [set(definition) for definition in definitions] == [fields] * len(LISTED_TOOLS)


async def test_the_list_of_an_unknown_agent_is_refused(service: Service) -> None:
    answer = (await service.http.get("/internal/mcp/tools?agent=a")).json()
    assert answer["error"]["code"] == "AGENT_NOT_FOUND"


@pytest.mark.parametrize(
    ("query", "field"),
    [("format=xml", "format"), ("tenant_id=", "tenant_id"), ("agent=%00", "agent")],
)
async def test_the_error_for_an_invalid_query_names_the_field(
    service: Service, query: str, field: str
) -> None:
    response = await service.http.get(f"/internal/mcp/tools?{query}")
    assert (response.status_code, response.json()["error"]["details"]["field"]) == (422, field)


async def test_an_unknown_route_returns_the_envelope(service: Service) -> None:
    response = await service.http.get("/nowhere", headers={"X-Trace-Id": "t"})
    assert (
        response.status_code,
        response.json()["error"]["code"],
        response.json()["trace_id"],
    ) == (
        404,
        "NOT_FOUND",
        "t",
    )


async def test_a_wrong_method_returns_the_envelope_and_the_allowed_methods(
    service: Service,
) -> None:
    response = await service.http.get(EXECUTE)
    assert (response.status_code, response.json()["error"]["code"], response.headers["Allow"]) == (
        405,
        "METHOD_NOT_ALLOWED",
        "POST",
    )


async def test_a_crash_is_an_internal_error_without_its_text(service: Service) -> None:
    service.gateway.repository.find = None  # type: ignore[assignment,method-assign]
    response = await service.http.post(
        EXECUTE, json=request_of("read_doc_metadata", {"doc_id": "doc_1"})
    )
    assert (response.status_code, "NoneType" in response.text) == (500, False)


async def test_a_crash_outside_of_a_call_is_logged_with_the_returned_trace_id(
    service: Service,
) -> None:
    service.gateway.registry.current = None  # type: ignore[assignment]
    with capture_logs() as lines:
        response = await service.http.get("/internal/mcp/tools", headers={"X-Trace-Id": "t-1"})
    assert (response.status_code, response.json()["trace_id"], lines[0]["trace_id"]) == (
        500,
        "t-1",
        "t-1",
    )
