"""POST /internal/mcp/execute: envelope, codes and statuses, input rules, order of checks."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.configuration import Json
from tests.support.service import EXECUTE, Service, request_of, running


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(**shared_settings) as started:
        yield started


def section_request(**top_level: Any) -> dict[str, object]:
    return request_of(
        "read_doc_section", {"doc_id": "doc_1", "section_id": "sec_intro"}, **top_level
    )


async def test_a_successful_call_has_a_result_and_a_trace_id(service: Service) -> None:
    response = await service.http.post(EXECUTE, json=section_request())
    assert (response.status_code, set(response.json())) == (200, {"status", "result", "trace_id"})


async def test_an_error_has_code_and_message_but_no_result(service: Service) -> None:
    envelope = await service.execute("no_such_tool")
    assert (set(envelope), set(envelope["error"])) == (
        {"status", "error", "trace_id"},
        {"code", "message", "details"},
    )


@pytest.mark.parametrize(
    ("tool_name", "arguments", "code"),
    [
        ("no_such_tool", {}, "TOOL_NOT_FOUND"),
        ("", {}, "INVALID_REQUEST"),
        (":tool", {}, "TOOL_NOT_FOUND"),
        ("server:", {}, "TOOL_NOT_FOUND"),
        ("server:tool", {}, "TOOL_NOT_ALLOWED"),
        ("read_doc_metadata", {}, "INVALID_ARGUMENTS"),
        ("read_doc_metadata", {"doc_id": "nobody's"}, "DOCUMENT_NOT_FOUND"),
        ("read_doc_section", {"doc_id": "doc_1", "section_id": "none"}, "SECTION_NOT_FOUND"),
        ("read_doc_pages", {"doc_id": "doc_1", "page_start": 13, "page_end": 14},
         "PAGES_NOT_FOUND"),
        ("read_doc_pages", {"doc_id": "doc_1", "page_start": 1, "page_end": 9},
         "PAGE_SPAN_TOO_LARGE"),
        ("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "c", "radius": 3},
         "WINDOW_TOO_LARGE"),
    ],
)  # fmt: skip
async def test_each_failure_has_its_code(
    service: Service, tool_name: str, arguments: dict[str, object], code: str
) -> None:
    assert await service.code(tool_name, arguments) == code


@pytest.mark.parametrize("tool_name", ["no_such_tool", "server:tool", "read_doc_metadata"])
async def test_errors_that_a_runtime_can_handle_are_http_200(
    service: Service, tool_name: str
) -> None:
    assert (await service.http.post(EXECUTE, json=request_of(tool_name))).status_code == 200


async def test_the_error_for_an_unknown_name_lists_valid_ones(service: Service) -> None:
    error = (await service.execute("read_doc_metdata"))["error"]
    assert error["details"]["did_you_mean"] == "read_doc_metadata"


async def test_an_agent_profile_that_does_not_exist_is_not_found(service: Service) -> None:
    envelope = (await service.http.post(EXECUTE, json=section_request(agent="a"))).json()
    assert envelope["error"]["code"] == "AGENT_NOT_FOUND"


async def test_a_null_agent_counts_as_absent(service: Service) -> None:
    envelope = (await service.http.post(EXECUTE, json=section_request(agent=None))).json()
    assert envelope["status"] == "ok"


async def test_unknown_top_level_keys_are_ignored(service: Service) -> None:
    response = await service.http.post(EXECUTE, json=section_request(session="s", x={}))
    assert response.json()["status"] == "ok"


async def test_null_arguments_count_as_absent(service: Service) -> None:
    body = request_of("list_available_tools") | {"arguments": None}
    assert (await service.http.post(EXECUTE, json=body)).json()["status"] == "ok"


async def test_null_roles_count_as_absent(service: Service) -> None:
    body = request_of("list_available_tools")
    body["user"] = {"user_id": "u", "tenant_id": "t", "roles": None}
    assert (await service.http.post(EXECUTE, json=body)).json()["status"] == "ok"


async def test_a_null_tool_argument_counts_as_absent(service: Service) -> None:
    arguments = {"doc_id": "doc_1", "section_id": "sec_intro", "start_char": None}
    assert await service.code("read_doc_section", arguments) == "OK"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tool_name": None}, "tool_name"),
        ({"tool_name": 7}, "tool_name"),
        ({"arguments": []}, "arguments"),
        ({"user": None}, "user"),
        ({"user": "me"}, "user"),
        ({"user": {"user_id": "u"}}, "user.tenant_id"),
        ({"user": {"user_id": "", "tenant_id": "t"}}, "user.user_id"),
        ({"user": {"user_id": "u" * 257, "tenant_id": "t"}}, "user.user_id"),
        ({"user": {"user_id": "u", "tenant_id": "a\nb"}}, "user.tenant_id"),
        ({"user": {"user_id": "u", "tenant_id": "a\u0085b"}}, "user.tenant_id"),
        ({"user": {"user_id": "u", "tenant_id": "t", "roles": "admin"}}, "user.roles"),
        ({"trace_id": {}}, "trace_id"),
        ({"trace_id": ["t-1"]}, "trace_id"),
        ({"trace_id": True}, "trace_id"),
    ],
)
async def test_the_error_for_a_malformed_request_names_the_field(
    service: Service, change: dict[str, object], field: str
) -> None:
    response = await service.http.post(EXECUTE, json=section_request() | change)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["details"]["field"]) == (
        422,
        "INVALID_REQUEST",
        field,
    )


async def test_identifiers_can_contain_any_other_character(service: Service) -> None:
    odd = "тенант/..:%00 \U0001f600\u2028'\""
    body = request_of("list_available_tools", tenant_id=odd)
    assert (await service.http.post(EXECUTE, json=body)).json()["status"] == "ok"


async def test_a_malformed_request_is_reported_before_an_unknown_agent(service: Service) -> None:
    body = section_request(agent="a") | {"user": None}
    response = await service.http.post(EXECUTE, json=body)
    assert response.json()["error"]["code"] == "INVALID_REQUEST"


async def test_an_unknown_agent_is_reported_before_an_unknown_tool(service: Service) -> None:
    assert await service.code("no_such_tool", agent="a") == "AGENT_NOT_FOUND"


async def test_invalid_arguments_are_reported_before_a_page_span(service: Service) -> None:
    arguments = {"doc_id": "", "page_start": 1, "page_end": 99}
    assert await service.code("read_doc_pages", arguments) == "INVALID_ARGUMENTS"


async def test_an_oversized_window_is_reported_before_blocked_content() -> None:
    async with running(blocklist_keywords=("c",)) as service:
        arguments = {"doc_id": "doc_1", "anchor_chunk_id": "a", "radius": 99}
        assert await service.code("read_chunk_window", arguments) == "WINDOW_TOO_LARGE"


async def test_blocked_content_is_reported_before_a_rate_limit() -> None:
    async with running(rate_limit_calls=1, blocklist_keywords=("leak",)) as service:
        arguments = {"doc_id": "doc_1", "query": "ldap"}
        await service.execute("doc_local_search", arguments)
        blocked = arguments | {"query": "leak"}
        assert await service.code("doc_local_search", blocked) == "CONTENT_BLOCKED"


async def test_a_rate_limit_is_reported_before_document_errors() -> None:
    async with running(rate_limit_calls=1) as service:
        arguments = {"doc_id": "doc_1", "section_id": "none"}
        seen = [await service.code("read_doc_section", arguments) for _ in range(2)]
        assert seen == ["SECTION_NOT_FOUND", "RATE_LIMIT_EXCEEDED"]


async def test_a_tenants_rate_limit_is_reported_before_a_missing_document() -> None:
    async with running(rate_limit_tenant_calls=1) as service:
        seen = [await service.code("read_doc_metadata", {"doc_id": "nobody's"}) for _ in range(2)]
        assert seen == ["DOCUMENT_NOT_FOUND", "RATE_LIMIT_EXCEEDED"]


async def test_document_errors_are_reported_before_a_missing_retrieval(service: Service) -> None:
    arguments = {"doc_id": "nobody's", "anchor_chunk_id": "c"}
    assert await service.code("read_chunk_window", arguments) == "DOCUMENT_NOT_FOUND"


async def test_a_missing_retrieval_is_http_503(service: Service) -> None:
    body = request_of("read_chunk_window", {"doc_id": "doc_1", "anchor_chunk_id": "c"})
    response = await service.http.post(EXECUTE, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (
        503,
        "RETRIEVAL_NOT_CONFIGURED",
    )


async def test_a_very_long_tool_name_is_truncated_in_the_error(service: Service) -> None:
    error = (await service.execute("x" * 100_000))["error"]
    assert len(error["message"]) < 400


async def test_a_result_over_the_limit_is_refused() -> None:
    async with running(max_result_bytes=300) as service:
        assert await service.code("list_available_tools") == "RESULT_TOO_LARGE"


@pytest.mark.requirement("T-06")
async def test_a_keyword_in_a_long_text_is_found_without_blocking_others() -> None:
    arguments = {"doc_id": "doc_1", "query": "\ufdfa" * 100_000 + " leak"}
    async with running(blocklist_keywords=("leak",)) as service, asyncio.TaskGroup() as group:
        blocked = group.create_task(service.code("doc_local_search", arguments))
        others = [group.create_task(service.http.get("/health")) for _ in range(5)]
    assert (blocked.result(), {call.result().status_code for call in others}) == (
        "CONTENT_BLOCKED",
        {200},
    )
