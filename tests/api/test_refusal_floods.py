"""Floods of uncharged requests, with and without a valid token, do not displace the history."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.telemetry.audit.audit_paths import audit_files, unauthenticated_path
from mcp_tools_proxy.telemetry.audit.audit_trail import MOST_RECORDED
from mcp_tools_proxy.telemetry.audit.record_search import RecordFilter, search_files
from mcp_tools_proxy.telemetry.audit.verification import verify
from mcp_tools_proxy.telemetry.recorder import DONE_SUMMARY, REFUSED_SUMMARY, Bound
from tests.support.bounds import until
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.service import EXECUTE, TOOLS, Service, eventually, running
from tests.support.tokens import bearer, file_token, token_settings

AUDIT = "/internal/mcp/audit"
KEY = "k" * 32
MAX_RECORDED = MOST_RECORDED[Bound.UNAUTHENTICATED]
READ: dict[str, object] = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc"}}
BAD = bearer("mtp_" + "x" * 43)
PROXIES = ("127.0.0.0/8",)
FLOOD = 400
"""Requests that would rotate every file several times if each had a record."""


@asynccontextmanager
async def audited(folder: Path, **settings: Any) -> AsyncIterator[tuple[Service, Path, str]]:
    """Start with small audit files and a token."""
    key_file, path = folder / "audit.key", folder / "audit.jsonl"
    key_file.write_text(KEY)
    options = {
        "audit": f"file:{path}",
        "audit_key_file": key_file,
        "audit_max_bytes": 20_000,
        "audit_keep_files": 2,
        "audit_unauthenticated_bytes": 50_000,
        **token_settings(),
        **settings,
    }
    document = make_document(tenant_id="tenant_1")
    async with running(document, **options) as service:
        token = file_token(tenant="tenant_1", user="u", may=[OperatorRight.AUDIT])
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        yield service, path, token


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def found(path: Path, **wanted: str) -> list[Any]:
    return search_files(path, RecordFilter(**wanted), cursor=None, limit=100_000).records


FLOODS: dict[str, tuple[str, str, dict[str, str], bytes]] = {
    "bad token, valid body": ("POST", EXECUTE, BAD, b"{}"),
    "bad token, invalid body": ("POST", EXECUTE, BAD, b"{"),
    "no token": ("GET", TOOLS, {}, b""),
    "no such route": ("GET", "/internal/none", {}, b""),
    "mcp": ("POST", "/mcp", BAD, b"{"),
    "unknown host": ("GET", TOOLS, {"Host": "evil.example"}, b""),
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_without_a_valid_token_rotates_no_history_away(
    tmp_path: Path, flood: str
) -> None:
    method, target, headers, body = FLOODS[flood]
    async with audited(tmp_path) as (service, path, token):
        assert (await service.http.post(EXECUTE, json=READ, headers=bearer(token))).is_success
        for _ in range(FLOOD):
            response = await service.http.request(method, target, headers=headers, content=body)
            assert response.status_code in (401, 403)
        again = await service.http.post(EXECUTE, json=READ, headers=bearer(token))
        assert again.json()["status"] == "ok"
    assert len(found(path, event="tool.call")) == 2
    assert found(path, event="request.refused") == []
    companion = unauthenticated_path(path)
    refused = found(companion, event="request.refused")
    summaries = [it["payload"] for it in found(companion, event=REFUSED_SUMMARY)]
    recorded = len(refused)
    assert recorded % MAX_RECORDED == 0  # a slow machine may take more than a minute
    assert sum(it["requests"] for it in summaries) == FLOOD - recorded
    assert {it["peer"] for it in summaries} == {"127.0.0.1"}
    assert all(it["first"] <= it["last"] for it in summaries)
    for file in (path, companion):
        assert verify(file, KEY.encode()).problems == []


def queued_records(service: Service) -> int:
    file = service.gateway.audit.unauthenticated_file
    return 0 if file is None else file.queued


async def test_many_addresses_fill_only_their_own_share_and_no_memory(tmp_path: Path) -> None:
    async with audited(tmp_path, trusted_proxies=PROXIES) as (service, path, token):
        await service.http.post(EXECUTE, json=READ, headers=bearer(token))

        async def flood(first: int, count: int) -> None:
            for number in range(first, first + count):
                peer = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
                await service.http.get(TOOLS, headers={**BAD, "X-Forwarded-For": peer})
                if number % 500 == 0:  # a flood can be faster than the disk
                    await until(lambda: not queued_records(service))

        await flood(0, 2_000)  # one-time allocations
        before = rss_bytes()
        await flood(2_000, 6_000)
        grown = rss_bytes() - before
    companion = unauthenticated_path(path)
    # a file ends with the batch that fills it, at most 1,000 records
    assert sum(it.stat().st_size for it in audit_files(companion)) < 5 * (10_000 + 400_000)
    assert grown < 10_000_000
    assert len(found(path, event="tool.call")) == 1
    of_unauthenticated, of_callers = (verify(it, KEY.encode()) for it in (companion, path))
    assert (of_unauthenticated.problems, of_callers.problems) == ([], [])
    assert "was removed by rotation" in of_unauthenticated.notes[0]
    assert (of_callers.notes, of_callers.first_seq) == ([], 1)


async def test_a_valid_token_passes_during_a_flood_from_its_address(
    tmp_path: Path,
) -> None:
    async with audited(tmp_path) as (service, _, token):
        for _ in range(100):
            assert (await service.http.get(TOOLS, headers=BAD)).status_code == 401
            response = await service.http.post(EXECUTE, json=READ, headers=bearer(token))
            assert response.status_code == 200


async def test_operators_find_refusals_among_all_other_records(tmp_path: Path) -> None:
    async with audited(tmp_path) as (service, _, _):
        operator = bearer(file_token(tenant=None, may=[OperatorRight.AUDIT]))
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        await service.http.get(TOOLS, headers={**BAD, "X-Trace-Id": "t-bad"})

        async def listed(**query: str) -> list[str]:
            answer = await service.http.get(AUDIT, params=query, headers=operator)
            return [it["trace_id"] for it in answer.json()["records"] if it["trace_id"] == "t-bad"]

        async def is_listed() -> bool:
            return await listed(unauthenticated="true") == ["t-bad"]

        await eventually(is_listed)
        assert await listed() == []


async def test_without_a_file_refusals_evict_no_call_from_memory() -> None:
    async with running(make_document(tenant_id="tenant_1"), **token_settings()) as service:
        token = file_token(tenant="tenant_1", user="u", may=[OperatorRight.AUDIT])
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        headers = bearer(token)
        await service.http.post(EXECUTE, json={**READ, "trace_id": "t-call"}, headers=headers)
        for number in range(1_100):
            peer = {"Host": f"evil-{number}.example"}
            await service.http.get(TOOLS, headers=peer)
        query = {"tenant_id": "tenant_1", "trace_id": "t-call"}
        answer = await service.http.get(AUDIT, params=query, headers=headers)
    assert [it["event"] for it in answer.json()["records"]] == ["tool.call"]


async def test_without_tokens_each_call_is_recorded() -> None:
    async with running() as service:
        with capture_logs() as lines:
            for _ in range(MAX_RECORDED * 2):
                await service.http.post(EXECUTE, content=b"{")
    refused = [line for line in lines if line["event"] == "request.refused"]
    assert len(refused) == MAX_RECORDED * 2


def executing(**body: object) -> tuple[str, str, Any]:
    return "POST", EXECUTE, {**READ, **body}


PAGES = {"doc_id": "doc", "page_start": 1, "page_end": 1}
CONFLICT = executing(tool_name="read_doc_pages", arguments=PAGES, idempotency_key="once")
OF_TOKENS: dict[str, tuple[str, str, Any, set[str]]] = {
    "malformed": ("POST", EXECUTE, b"{", {"INVALID_REQUEST"}),
    "wrong fields": ("POST", EXECUTE, {"tool": 1}, {"INVALID_REQUEST"}),
    "unknown route": ("GET", "/internal/none", None, {"NOT_FOUND"}),
    "wrong method": ("DELETE", EXECUTE, None, {"METHOD_NOT_ALLOWED"}),
    "unknown tool": (*executing(tool_name="none"), {"TOOL_NOT_FOUND"}),
    "wrong arguments": (*executing(arguments={"doc_id": []}), {"INVALID_ARGUMENTS"}),
    "blocked word": (
        *executing(arguments={"doc_id": "doc", "x": "drop"}),
        {"CONTENT_BLOCKED", "INVALID_ARGUMENTS"},
    ),
    "another tenant": (*executing(user={"tenant_id": "other", "user_id": "u"}), {"FORBIDDEN"}),
    "forbidden route": ("GET", "/internal/mcp/tokens", None, {"FORBIDDEN"}),
    "idempotency conflict": (*CONFLICT, {"IDEMPOTENCY_CONFLICT"}),
    "budget used up": (
        *executing(tool_name="list_documents", arguments={}),
        {"RATE_LIMIT_EXCEEDED"},
    ),
    "mcp": ("POST", "/mcp", b"{", {"INVALID_REQUEST"}),
    "mcp method": ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "x"}, {"INVALID_REQUEST"}),
}
"""Uncharged refusals of requests with a valid token, and the codes of their records."""


@pytest.mark.parametrize("flood", OF_TOKENS)
async def test_an_uncharged_flood_of_a_valid_token_rotates_no_history_away(
    tmp_path: Path, flood: str
) -> None:
    method, target, body, codes = OF_TOKENS[flood]
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    settings = {"unlimited": False, "rate_limit_tenant_calls": 2, "blocklist_keywords": "drop"}
    async with audited(tmp_path, **settings) as (service, path, token):
        headers = {**bearer(token), "Accept": "application/json, text/event-stream"}
        for key in ("once", "twice"):
            first = {**READ, "idempotency_key": key}
            assert (await service.http.post(EXECUTE, json=first, headers=headers)).is_success
        for _ in range(FLOOD):
            await service.http.request(method, target, headers=headers, **content)
    calls = found(path, event="tool.call", code="OK")
    assert [it["payload"]["budget"]["remaining_calls"] for it in calls] == [0, 1]
    most = MOST_RECORDED[Bound.REFUSED]
    one_by_one = [
        it for it in found(path) if "code" in it["payload"] and it["event"] != REFUSED_SUMMARY
    ]
    refused = [it for it in one_by_one if it["payload"]["code"] in codes]
    assert len(refused) % most == 0
    assert refused
    summaries = [it["payload"] for it in found(path, event=REFUSED_SUMMARY)]
    assert sum(it["requests"] for it in summaries) == FLOOD - len(refused)
    assert {code for it in summaries for code in it["codes"]} <= codes
    token_id = calls[0]["payload"]["token_id"]
    assert {(it["tenant_id"], it["token_id"]) for it in summaries} == {("tenant_1", token_id)}
    code = summaries[0]["code"]
    assert found(path, event=REFUSED_SUMMARY, code=code, tenant_id="tenant_1", token_id=token_id)
    assert verify(path, KEY.encode()).problems == []


@pytest.mark.parametrize(
    ("method", "target", "body", "event"),
    [
        ("GET", TOOLS, None, "components.listed"),
        ("GET", f"{AUDIT}?tenant_id=tenant_1&limit=1", None, "operator.right_used"),
        ("POST", EXECUTE, {**READ, "idempotency_key": "once"}, "tool.call"),
    ],
)
async def test_a_flood_of_uncharged_answers_is_summarised(
    tmp_path: Path, method: str, target: str, body: Any, event: str
) -> None:
    async with audited(tmp_path, audit_max_bytes=2_000_000) as (service, path, token):
        headers = bearer(token)
        first = {**READ, "idempotency_key": "once"}
        await service.http.post(EXECUTE, json=first, headers=headers)
        for _ in range(FLOOD):
            response = await service.http.request(method, target, headers=headers, json=body)
            assert response.is_success
    most = MOST_RECORDED[Bound.DONE]
    one_by_one = len(found(path, event=event)) - (event == "tool.call")
    assert one_by_one % most == 0
    summaries = [it["payload"] for it in found(path, event=DONE_SUMMARY)]
    assert sum(it["events"][event] for it in summaries) == FLOOD - one_by_one > 0


async def test_many_tokens_of_a_tenant_share_the_record_limit(tmp_path: Path) -> None:
    async with audited(tmp_path, audit_max_bytes=2_000_000) as (service, path, _):
        tokens = [file_token(tenant="tenant_1", user="u") for _ in range(12)]
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        for token in tokens:
            for _ in range(MOST_RECORDED[Bound.REFUSED] + 1):
                await service.http.post(EXECUTE, content=b"{", headers=bearer(token))
    refused = found(path, event="request.refused")
    assert len(refused) < 12 * MOST_RECORDED[Bound.REFUSED]
    summed_up = {it["payload"].get("token_id") for it in found(path, event=REFUSED_SUMMARY)}
    assert len(summed_up) == 12


async def test_summaries_are_written_seconds_after_the_refusals(tmp_path: Path) -> None:
    async with audited(tmp_path) as (service, path, token):
        for headers in (BAD, bearer(token)):
            for _ in range(2 * MOST_RECORDED[Bound.REFUSED]):
                await service.http.post(EXECUTE, content=b"{", headers=headers)

        async def are_written() -> bool:
            files = path, unauthenticated_path(path)
            return all(found(file, event=REFUSED_SUMMARY) for file in files)

        await eventually(are_written)


async def test_a_record_that_is_only_counted_frees_its_slot(tmp_path: Path) -> None:
    async with audited(tmp_path, audit_required=True, audit_max_bytes=2_000_000) as running_one:
        service, _, token = running_one
        headers = bearer(token)
        for _ in range(1_200):  # more than there are slots
            body = {**READ, "tool_name": "no:such"}
            await service.http.post(EXECUTE, json=body, headers=headers)
        response = await service.http.post(EXECUTE, json=READ, headers=headers)
    assert response.json()["status"] == "ok"
