"""State of a replica, recent calls, and items that need attention: /internal/mcp/overview."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.wire.version import VERSION
from tests.api.document_operator import ADMIN
from tests.support.configuration import Config, Json, make_preset, make_rule
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.oauth_issuer import protect, running_issuer
from tests.support.service import (
    CONFIG_DIR,
    EXECUTE,
    READY,
    Service,
    eventually,
    request_of,
    running,
)
from tests.support.tokens import TOKENS_FILE, bearer, file_token, token_settings

OVERVIEW = "/internal/mcp/overview"
DOC_1 = {"doc_id": "doc_1"}
DEAD: Json = {"transport": "streamable-http", "url": "http://127.0.0.1:9/mcp"}


@asynccontextmanager
async def overview_service(config: Config | None = None, **settings: Any) -> AsyncIterator[Service]:
    async with running(config=config, admin_token=ADMIN, **settings) as service:
        yield service


async def overview(service: Service, token: str = ADMIN, **query: str) -> Any:
    answer = await service.http.get(OVERVIEW, params=query, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def attention(service: Service, kind: str, **query: str) -> list[Mapping[str, Any]]:
    found = (await overview(service, **query))["attention"]
    return [it for it in found if it["kind"] == kind]


async def test_calls_of_the_last_hour_are_shown(server: RawServer) -> None:
    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "echo")])])
    async with overview_service(config, console=True) as service:
        await service.execute("s1:echo", {"text": "x"})
        await service.execute("read_doc_metadata", DOC_1)
        await service.execute("read_doc_metadata", {"doc_id": "none"}, tenant_id="tenant_2")
        shown = await overview(service)
        calls = shown["calls"]
        of_one = (await overview(service, tenant_id="tenant_2"))["calls"]
    assert (calls["total"], calls["errors"], calls["window_s"], calls["complete"]) == (
        3,
        1,
        3600,
        True,
    )
    assert calls["by_code"] == {"OK": 2, "DOCUMENT_NOT_FOUND": 1}
    assert [(it.get("server_id"), it["total"], it["errors"]) for it in calls["by_server"]] == [
        (None, 2, 1),
        ("s1", 1, 0),
    ]
    assert [sum(it["per_minute"]) for it in calls["by_server"]] == [2, 1]
    assert 0 < calls["p50_ms"] <= calls["p99_ms"]
    assert (len(calls["minutes"]), sum(it["total"] for it in calls["minutes"])) == (60, 3)
    assert (of_one["by_code"], of_one["total"]) == ({"DOCUMENT_NOT_FOUND": 1}, 1)
    assert (shown["replica"]["version"], shown["replica"]["uptime_s"] >= 0) == (VERSION, True)


async def test_without_a_console_calls_are_not_counted() -> None:
    async with overview_service() as service:
        await service.execute("read_doc_metadata", DOC_1)
        shown = await overview(service)
    assert service.gateway.recent_calls is None
    assert shown.keys() == {"replica", "readiness", "attention", "attention_left_out"}


async def test_almost_exhausted_budgets_are_shown() -> None:
    limits = [make_rule("per_tenant", each=["tenant"], calls=5)]
    async with overview_service(Config(limits=limits), console=True) as service:
        for tenant_id in ("tenant_1", "tenant_1", "tenant_1", "tenant_1", "tenant_2"):
            await service.execute("read_doc_metadata", DOC_1, tenant_id=tenant_id)
        everybodys = (await overview(service))["budgets"]
        of_one = (await overview(service, tenant_id="tenant_1"))["budgets"]
        of_other = (await overview(service, tenant_id="tenant_2"))["budgets"]
    assert 0 < everybodys[0].pop("reset_s") <= 60
    assert 0 < of_one[0].pop("reset_s") <= 60
    tight = {"tenant_id": "tenant_1", "name": "per_tenant", "unit": "calls", "limit": 5}
    assert everybodys == of_one == [{**tight, "remaining": 1}]
    assert of_other == []


async def test_readiness_has_the_details_for_operators() -> None:
    async with overview_service() as service:
        ready = await service.http.get(READY, headers=bearer(ADMIN))
        assert (await overview(service))["readiness"] == ready.json()


async def test_a_failing_server_needs_attention(server: RawServer) -> None:
    config = Config(
        servers={"dead": DEAD, "s1": server.entry},
        presets=[make_preset(tools=[("dead", "echo"), ("s1", "echo")])],
    )
    async with overview_service(config) as service:
        (failing,) = await attention(service, "server_failing")
        missing = await attention(service, "item_missing")
    assert (failing["server_id"], failing["subject"]) == ("dead", "dead")
    assert failing["message"].startswith("its state is unreachable: ")
    assert missing == [
        {
            "kind": "item_missing",
            "subject": "tool echo",
            "message": "the preset work names it: server dead is unavailable: connection refused",
            "server_id": "dead",
            "item_kind": "tool",
            "name": "echo",
        }
    ]


@pytest.mark.parametrize(
    ("mode", "kind", "end"),
    [
        ("pin", "item_quarantined", ", so it is neither listed nor callable"),
        ("warn", "item_changed", ""),
    ],
)
async def test_an_unaccepted_definition_needs_attention(
    server: RawServer, mode: str, kind: str, end: str
) -> None:
    preset = make_preset(tools=[("s1", "echo")], prompts=[], resources=[])
    config = Config(servers={"s1": server.entry}, presets=[preset])
    config.write(CONFIG_DIR)
    lock: Json = {"version": 1, "definitions": []}
    (CONFIG_DIR / "definitions.lock.json").write_text(json.dumps(lock))
    async with overview_service(config, definitions=mode) as service:
        found = await attention(service, kind)
    (echo,) = (it for it in found if it["name"] == "echo")
    assert echo["message"] == f"it is not in definitions.lock.json{end}"
    assert (echo["server_id"], echo["item_kind"]) == ("s1", "tool")


async def test_a_problem_of_a_file_needs_attention() -> None:
    async with overview_service(Config(limits=[])) as service:
        (CONFIG_DIR / "limits.json").write_text("{")

        async def is_shown() -> bool:
            return bool(await attention(service, "file_problem"))

        await eventually(is_shown)
        (problem,) = await attention(service, "file_problem")
        (retained,) = await attention(service, "config_retained")
    assert (problem["file"], problem["path"], bool(problem["message"])) == (
        "limits.json",
        "$",
        True,
    )
    assert retained["since"]


async def test_invalid_lines_of_the_tokens_file_and_lost_records_need_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.telemetry.audit.audit_file.MAX_QUEUED", 0)
    settings = token_settings()
    (tmp_path / TOKENS_FILE).write_text("no token\n")
    async with overview_service(audit=f"file:{tmp_path / 'audit.jsonl'}", **settings) as service:
        await overview(service)
        (degraded,) = await attention(service, "dependency_degraded")
        (lost,) = await attention(service, "records_lost")
    assert (degraded["subject"], "line 1: " in degraded["message"]) == ("tokens", True)
    assert (lost["subject"], lost["message"][0].isdigit()) == ("audit", True)


@pytest.mark.parametrize(("login_for", "tenant_id"), [("deployment", None), ("tenant", "tenant_1")])
async def test_a_missing_login_needs_attention_from_its_tenant(
    login_for: str, tenant_id: str | None
) -> None:
    async with running_issuer() as issuer, running_raw() as server:
        protect(server, issuer)
        entry = {
            **server.entry,
            "isolation": "shared" if tenant_id is None else "tenant",
            "auth": {"type": "oauth", "for": login_for},
        }
        if tenant_id is not None:
            entry["discoveryCaller"] = {"tenant_id": tenant_id, "user_id": "u"}
        settings = {"credentials_key": ("0123456789abcdef0123456789abcdef",)}
        async with overview_service(Config(servers={"s1": entry}), **settings) as service:
            found = await attention(service, "login_waiting")
            of_one = await attention(service, "login_waiting", tenant_id="tenant_1")
            of_other = await attention(service, "login_waiting", tenant_id="tenant_2")
            failing = await attention(service, "server_failing")
    (waiting,) = found
    assert (waiting["server_id"], waiting["login_for"]) == ("s1", login_for)
    assert waiting.get("tenant_id") == tenant_id
    assert (of_one, of_other, failing) == (found if tenant_id else [], [], [])


async def test_a_right_for_one_tenant_shows_no_errors_paths_or_other_tenants(
    server: RawServer,
) -> None:
    settings = token_settings()
    token = file_token(tenant="tenant_1", may=[OperatorRight.AUDIT])
    config = Config(
        servers={"dead": DEAD, "bad": {"transport": "pigeon"}, "s1": server.entry},
        presets=[make_preset(tools=[("dead", "echo")])],
    )
    async with running(config=config, console=True, **settings) as service:
        shown = await overview(service, token, tenant_id="tenant_1")
        refused = await service.http.get(OVERVIEW, headers=bearer(token))
        other = await service.http.get(
            OVERVIEW, params={"tenant_id": "tenant_2"}, headers=bearer(token)
        )
    assert (refused.status_code, other.status_code) == (403, 403)
    assert shown["replica"].keys() == {"version", "started_at", "uptime_s"}
    assert shown["readiness"] == {
        "status": "degraded",
        "checks": {
            "server:dead": {"status": "degraded", "state": "unreachable"},
            "server:bad": {"status": "degraded", "state": "invalid"},
            "server:s1": {"status": "ok", "state": "ready"},
        },
    }
    assert shown["attention"] == [
        {
            "kind": "server_failing",
            "subject": server_id,
            "message": f"its state is {state}",
            "server_id": server_id,
        }
        for server_id, state in (("dead", "unreachable"), ("bad", "invalid"))
    ]
    assert shown["calls"]["total"] == 0


async def test_the_overview_needs_the_right() -> None:
    async with running() as service:
        assert (await service.http.get(OVERVIEW)).status_code == 403
    async with overview_service() as service:
        assert (await service.http.get(OVERVIEW)).status_code == 401
        misspelt = await service.http.get(
            OVERVIEW, params={"tenant": "tenant_1"}, headers=bearer(ADMIN)
        )
        assert misspelt.json()["error"]["details"] == {"field": "tenant"}


async def test_at_most_fifty_items_of_a_kind_are_shown() -> None:
    preset = make_preset(tools=[("s1", f"tool_{number}") for number in range(60)])
    async with overview_service(Config(servers={"s1": DEAD}, presets=[preset])) as service:
        shown = await overview(service)
    missing = [it for it in shown["attention"] if it["kind"] == "item_missing"]
    assert (len(missing), shown["attention_left_out"]) == (50, 10)


async def test_each_view_is_recorded() -> None:
    async with overview_service() as service:
        await overview(service, tenant_id="tenant_1")
        found = await service.http.get("/internal/mcp/audit", headers=bearer(ADMIN))
    (record,) = found.json()["records"]
    assert (record["event"], record["payload"]["tenant_id"]) == ("operator.right_used", "tenant_1")


async def test_calls_with_traces_are_counted_too() -> None:
    async with overview_service(
        console=True, otlp_endpoint="http://127.0.0.1:9", shutdown_grace_s=0
    ) as service:
        await service.http.post(EXECUTE, json=request_of("read_doc_metadata", DOC_1))
        assert (await overview(service))["calls"]["total"] == 1


async def test_figures_of_a_server_count_the_calls_sent_to_it(server: RawServer) -> None:
    preset = make_preset(tools=[("s1", "echo"), ("dead", "echo")])
    config = Config(servers={"s1": server.entry, "dead": DEAD}, presets=[preset])
    async with overview_service(
        config, console=True, unlimited=False, rate_limit_tenant_calls=2
    ) as service:
        for arguments in ({"text": "a"}, {"text": 5}, {"text": "b"}, {"text": "c"}):
            await service.execute("s1:echo", arguments)
        await service.execute("dead:echo", {"text": "a"}, tenant_id="tenant_2")
        calls = (await overview(service))["calls"]
    found = {it["server_id"]: it for it in calls["by_server"]}
    assert (found["s1"]["total"], found["s1"]["errors"], found["s1"]["not_sent"]) == (2, 0, 2)
    assert (found["dead"]["total"], found["dead"]["not_sent"]) == (0, 1)
    assert (calls["total"], calls["errors"]) == (5, 3)
    assert calls["by_code"] == {
        "OK": 2,
        "INVALID_ARGUMENTS": 1,
        "RATE_LIMIT_EXCEEDED": 1,
        "SERVER_UNAVAILABLE": 1,
    }
