"""Every attempt leaves one record; operators with the right ``audit`` can read them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.telemetry.audit.verification import verify
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import BATCH, EXECUTE, TOOLS, Service, running
from tests.support.tokens import bearer

AUDIT = "/internal/mcp/audit"
ADMIN = "correct-horse-battery"
USER = {"user_id": "u", "tenant_id": "tenant_1", "roles": ["reader"]}
READ: dict[str, object] = {
    "tool_name": "read_doc_metadata",
    "arguments": {"doc_id": "doc_1"},
    "user": USER,
    "trace_id": "t-1",
}
KEY = "k" * 32
NOT_RECORDED = ("service", "settings", "documents", "preset", "agents", "config", "server", "audit")

Lines = list[Any]


def records(lines: Lines) -> list[dict[str, Any]]:
    return [it for it in lines if it["event"].partition(".")[0] not in NOT_RECORDED]


async def test_a_call_is_one_line_with_caller_tool_decision_and_configuration_state(
    service: Service,
) -> None:
    with capture_logs() as lines:
        await service.http.post(EXECUTE, json=READ)
    (line,) = records(lines)
    assert line.pop("duration_ms") >= 0
    assert len(line.pop("document_version")) == 64
    assert line.pop("result_bytes") > 0
    assert line.pop("tokens") > 0
    assert line == {
        "event": "tool.call",
        "log_level": "info",
        "trace_id": "t-1",
        "code": "OK",
        "kind": "tool",
        "tool": "read_doc_metadata",
        "tenant_id": "tenant_1",
        "user_id": "u",
        "roles": ["reader"],
        "entry": "api",
        "peer": "127.0.0.1",
        "route": f"POST {EXECUTE}",
        "arguments": ["doc_id"],
        "doc_id": "doc_1",
        "preset": "__empty__",
        "generation": 1,
    }


@pytest.mark.parametrize(
    ("arguments", "code", "check", "rule"),
    [
        ({}, "INVALID_ARGUMENTS", "arguments", None),
        ({"doc_id": "doc_1", "versions": "secret"}, "INVALID_ARGUMENTS", "arguments", None),
        ({"doc_id": "none"}, "DOCUMENT_NOT_FOUND", "document", None),
        (
            {"doc_id": "doc_1", "page_start": 1, "page_end": 99},
            "PAGE_SPAN_TOO_LARGE",
            "arguments",
            {"file": "settings", "path": "MCP_PROXY_MAX_PAGES_PER_CALL"},
        ),
    ],
)
async def test_a_refused_call_names_the_check_and_the_rule_that_decided(
    service: Service,
    arguments: dict[str, object],
    code: str,
    check: str,
    rule: dict[str, str] | None,
) -> None:
    tool = "read_doc_pages" if "page_end" in arguments else "read_doc_metadata"
    with capture_logs() as lines:
        await service.http.post(EXECUTE, json={**READ, "tool_name": tool, "arguments": arguments})
    (line,) = records(lines)
    assert (line["code"], line["check"], line.get("rule")) == (code, check, rule)
    assert "secret" not in json.dumps(line)


async def test_a_batch_has_a_record_and_each_of_its_calls_one(service: Service) -> None:
    one = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}}
    with capture_logs() as lines:
        await service.http.post(BATCH, json={"calls": [one, one], "user": USER})
    found = records(lines)
    assert [line["event"] for line in found] == ["batch.received", "tool.call", "tool.call"]
    assert (found[0]["calls"], found[0]["request_bytes"] > 0) == (2, True)
    assert {line["trace_id"] for line in found} == {found[0]["trace_id"]}


@pytest.mark.parametrize("path", [TOOLS, "/internal/mcp/prompts", "/internal/mcp/resources"])
async def test_a_list_has_a_record(service: Service, path: str) -> None:
    with capture_logs() as lines:
        await service.http.get(path, params={"tenant_id": "tenant_1"})
    (line,) = records(lines)
    assert (line["event"], line["route"], line["tenant_id"]) == (
        "components.listed",
        f"GET {path}",
        "tenant_1",
    )


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/internal/mcp/nothing", "NOT_FOUND"),
        ("PUT", EXECUTE, "METHOD_NOT_ALLOWED"),
        ("POST", EXECUTE, "INVALID_REQUEST"),
    ],
)
async def test_a_request_that_is_refused_before_it_is_a_call_has_a_record(
    service: Service, method: str, path: str, code: str
) -> None:
    with capture_logs() as lines:
        await service.http.request(method, path, content=b"{")
    (line,) = records(lines)
    assert (line["event"], line["code"], line["check"], line["route"]) == (
        "request.refused",
        code,
        "request",
        f"{method} {path}",
    )


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics", "/openapi.json"])
async def test_probes_leave_no_record(service: Service, path: str) -> None:
    with capture_logs() as lines:
        await service.http.get(path)
    assert records(lines) == []


async def test_operators_find_the_newest_records_first() -> None:
    async with running(admin_token=ADMIN) as service:
        for number in range(5):
            await service.http.post(EXECUTE, json={**READ, "trace_id": f"t-{number}"})
        query = {"tenant_id": "tenant_1", "tool": "read_doc_metadata", "limit": "2"}
        first = await service.http.get(AUDIT, params=query, headers=bearer(ADMIN))
        page = first.json()
        assert [it["trace_id"] for it in page["records"]] == ["t-4", "t-3"]
        rest = await service.http.get(
            AUDIT,
            params={**query, "limit": "100", "cursor": page["next_cursor"]},
            headers=bearer(ADMIN),
        )
        assert [it["trace_id"] for it in rest.json()["records"]] == ["t-2", "t-1", "t-0"]
        used = await service.http.get(
            AUDIT, params={"event": "operator.right_used"}, headers=bearer(ADMIN)
        )
        (last, *_) = used.json()["records"]
        assert (last["payload"]["right"], last["payload"]["route"]) == ("audit", f"GET {AUDIT}")


async def test_records_need_the_right_audit(service: Service) -> None:
    answer = await service.http.get(AUDIT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")


async def test_the_error_for_a_malformed_query_names_the_field() -> None:
    async with running(admin_token=ADMIN) as service:
        for query, field in (
            ({"since": "yesterday"}, "since"),
            ({"since": "2026-11-25T10:00"}, "since"),
            ({"cursor": "x"}, "cursor"),
            ({"limit": "100000"}, "limit"),
            ({"tenant": "tenant_1"}, "tenant"),  # with this typo it would show all tenants' records
        ):
            answer = await service.http.get(AUDIT, params=query, headers=bearer(ADMIN))
            assert answer.json()["error"]["details"] == {"field": field}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    return path


async def test_records_in_a_file_can_be_read_by_the_route(tmp_path: Path, key_file: Path) -> None:
    path = tmp_path / "audit" / "{host}.jsonl"
    async with running(audit=f"file:{path}", audit_key_file=key_file, admin_token=ADMIN) as service:
        for _ in range(3):
            await service.http.post(EXECUTE, json=READ)
        file = service.gateway.audit.file
        assert file is not None
        while file.queued:  # noqa: ASYNC110 - a thread writes
            await asyncio.sleep(0.01)
        found = await service.http.get(AUDIT, params={"trace_id": "t-1"}, headers=bearer(ADMIN))
        assert len(found.json()["records"]) == 3
        assert {len(it["mac"]) for it in found.json()["records"]} == {64}
        ready = await service.http.get("/health/ready")
        check = ready.json()["checks"]["audit"]
        assert (check["status"], check["lost"], check["failure"]) == ("ok", 0, None)
    result = verify(file.path, KEY.encode())
    assert (result.problems, result.records) == ([], 5)  # open, three calls, one query


async def test_a_call_is_refused_if_its_required_record_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.telemetry.audit.audit_file.MAX_QUEUED", 0)
    path = tmp_path / "audit.jsonl"
    async with running(audit=f"file:{path}", audit_required=True) as service:
        answer = await service.http.post(EXECUTE, json=READ)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "AUDIT_UNAVAILABLE")
        assert answer.json()["error"]["retryable"] is True


async def test_the_record_has_the_id_of_the_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("")
    with capture_logs() as lines:
        async with running(auth_mode="token", tokens_file=tokens) as service:
            token, entry = add_token(tokens, Principal(tenant_id="tenant_1", user_id="u"))
            assert service.gateway.tokens is not None
            await service.gateway.tokens.load()
            await service.http.post(EXECUTE, json=READ | {"user": None}, headers=bearer(token))
    found = {line["event"]: line for line in records(lines)}
    assert found["tokens.changed"]["added"] == [entry.id]
    assert found["tool.call"]["token_id"] == entry.id


async def test_rules_of_profiles_and_presets_are_named_with_file_and_position(
    tmp_path: Path,
) -> None:
    async with running(
        config=Config(agents=[make_agent("r", exclude=["x", "read_doc_pages"])])
    ) as service:
        with capture_logs() as lines:
            await service.http.post(
                EXECUTE,
                json={**READ, "tool_name": "read_doc_pages", "agent": "r"},
            )
            await service.http.post(EXECUTE, json={**READ, "agent": "nobody"})
    denied, unknown = records(lines)
    assert (denied["event"], denied["check"], denied["rule"]) == (
        "proxy.tool.denied",
        "visibility",
        {"file": "agents.json", "path": '$.agents[?@.name=="r"].exclude_components[1]'},
    )
    assert (unknown["check"], unknown["rule"]) == (
        "agent",
        {"file": "agents.json", "path": "$.agents"},
    )


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        (None, {"file": "agents.json", "path": "$.agents"}),
        (True, {"file": "settings", "path": "MCP_PROXY_REQUIRE_AGENT"}),
    ],
)
async def test_the_record_says_whether_the_setting_or_the_profiles_require_an_agent(
    setting: bool | None, rule: dict[str, str]
) -> None:
    config = Config(agents=[make_agent("r")])
    async with running(config=config, require_agent=setting) as service:
        with capture_logs() as lines:
            await service.http.post(EXECUTE, json=READ)
    (refused,) = records(lines)
    assert (refused["code"], refused["rule"]) == ("AGENT_REQUIRED", rule)


@pytest.mark.parametrize("tool", ["s1:sleep", "s1:no such tool"])
async def test_the_record_of_a_refused_tool_names_its_server(tool: str) -> None:
    async with (
        running_raw() as raw,
        running(
            config=Config(
                servers={"s1": raw.entry},
                presets=[make_preset(tools=[("s1", "echo"), ("s1", "sleep")])],
                agents=[make_agent("r", exclude=["sleep"])],
            )
        ) as service,
    ):
        with capture_logs() as lines:
            await service.http.post(EXECUTE, json={**READ, "tool_name": tool, "agent": "r"})
    (refused,) = records(lines)
    assert (refused["toolName"], refused["targetServerId"]) == (tool, "s1")
