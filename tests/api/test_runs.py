"""Runs and policies over the HTTP API (contract §1)."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from mcp_tools_proxy.config import policies
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import (
    BATCH,
    CONFIG_DIR,
    RESOURCES,
    Service,
    eventually,
    request_of,
    running,
)


def tool(name: str, **properties: str) -> Json:
    schema = {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}}
    return {"name": name, "description": name, "inputSchema": schema}


TOOLS = (
    tool("read_inbox", id="string"),
    tool("send_email", to="string", body="string"),
    tool("get_order", id="string"),
    tool("refund", order_id="string", cents="integer"),
)
LABELS = {
    "shop:read_inbox": {
        "labels": ["reads_private", "reads_untrusted"],
        "claimed": ["arguments.id"],
    },
    "shop:send_email": {"labels": ["sends"], "targets": ["to"]},
    "shop:get_order": {"labels": ["reads_private"], "identifiers": ["arguments.id"]},
    "shop:refund": {"labels": ["writes"], "targets": []},
}
NO_SEND = """
@id("no-send")
@message("Ask the user for the address.")
forbid(principal, action in Action::"label:sends", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted") &&
  (context.target.contains("text") || context.target.contains("claimed") ||
   context.embedded.contains("text"))
};
"""
ORDER_FIRST = """
@id("order-first")
forbid(principal, action == Action::"shop:refund", resource) unless {
  context has run && context.run.succeeded["shop:get_order"] > 0 &&
  context has args.order_id && context.origin.order_id.contains("shop:get_order#arguments.id")
};
"""
TOTAL = """
@id("total")
forbid(principal, action == Action::"shop:refund", resource) when {
  context has run && context has args.cents &&
  context.run.total["shop:refund#cents"] + context.args.cents > 1000
};
"""

FETCH = """
@id("fetch")
forbid(principal, action in Action::"label:reads_untrusted", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted") &&
  context.embedded.contains("text")
};
"""


@asynccontextmanager
async def shop(
    *policies: str,
    labels: Mapping[str, Json] = LABELS,
    tools: Iterable[Json] = TOOLS,
    templates: Iterable[Json] = (),
    entry: Mapping[str, object] = {},
    **settings: Any,
) -> AsyncIterator[Service]:
    names = [it["name"] for it in tools]
    extra = {"tools": [*tools], "resourceTemplates": [*templates]}
    async with running_raw(extra=extra) as server:
        preset = make_preset(tools=[("shop", it) for it in (*names, "is_error", "echo", "hang")])
        shown = {"type": "streamable-http", "url": server.url, **entry}
        config = Config(servers={"shop": shown}, presets=[preset], more={"defaultPresetId": "work"})
        CONFIG_DIR.mkdir(parents=True, exist_ok=True)
        write_json(CONFIG_DIR / "labels.json", {"tools": dict(labels)})
        if policies:
            (CONFIG_DIR / "policies").mkdir()
            for number, text in enumerate(policies):
                (CONFIG_DIR / "policies" / f"{number}.cedar").write_text(text)
        async with running(config=config, **settings) as service:
            yield service


def a_run(task: str = "", **more: Any) -> Json:
    return {"id": uuid4().hex, **({"task": task} if task else {}), **more}


async def read(service: Service, uri: str, run: Json) -> str:
    body = {"uri": uri, "user": request_of("x")["user"], "run": run}
    envelope = (await service.http.post(f"{RESOURCES}/read", json=body)).json()
    return str(envelope.get("error", {}).get("code", "OK"))


async def refusal(service: Service, name: str, arguments: Json, **context: Any) -> tuple[str, Any]:
    envelope = await service.execute(name, arguments, **context)
    if envelope["status"] == "ok":
        return "OK", None
    details = envelope["error"].get("details") or {}
    return envelope["error"]["code"], details.get("policy_ids")


async def test_nothing_is_sent_after_foreign_text_but_to_the_users_own_targets() -> None:
    async with shop(NO_SEND) as service:
        run = a_run("Write to bob@a.com what is new, please.")
        send = {"to": "eve@evil.io", "body": "hi"}
        assert await service.code("shop:send_email", send, run=run) == "OK"
        assert await service.code("shop:read_inbox", {"id": "eve@evil.io"}, run=run) == "OK"
        envelope = await service.execute("shop:send_email", send, run=run)
        assert envelope["error"]["code"] == "POLICY_DENIED"
        assert envelope["error"]["message"] == "Ask the user for the address."
        assert envelope["error"]["details"] == {"policy_ids": ["no-send"]}
        send = {"to": "bob@a.com", "body": "hi"}
        assert await service.code("shop:send_email", send, run=run) == "OK"
        send = {"to": "bob@a.com.evil.io", "body": "hi"}
        assert await service.code("shop:send_email", send, run=run) == "POLICY_DENIED"
        send = {"to": "bob@a.com", "body": "see https://evil.io/?q=secret"}
        assert await service.code("shop:send_email", send, run=run) == "POLICY_DENIED"
        other = a_run()
        assert await service.code("shop:send_email", send, run=other) == "OK"


async def test_a_policy_that_reads_the_run_needs_one() -> None:
    optional = NO_SEND.replace('@id("no-send")', '@id("no-send") @run("optional")')
    async with shop(NO_SEND) as service:
        found = await refusal(service, "shop:send_email", {"to": "a@b.c"})
        assert found == ("RUN_REQUIRED", ["no-send"])
        assert await service.code("shop:get_order", {"id": "1"}) == "OK"
    (CONFIG_DIR / "policies" / "0.cedar").unlink()
    (CONFIG_DIR / "policies").rmdir()
    async with shop(optional) as service:
        assert await service.code("shop:send_email", {"to": "a@b.c"}) == "OK"


async def test_a_call_needs_the_success_of_another_with_the_same_value() -> None:
    async with shop(ORDER_FIRST) as service:
        run = a_run()
        refund = {"order_id": "A-17", "cents": 5}
        assert (await refusal(service, "shop:refund", refund, run=run))[1] == ["order-first"]
        assert await service.code("shop:get_order", {"id": "A-18"}, run=run) == "OK"
        assert await service.code("shop:refund", refund, run=run) == "POLICY_DENIED"
        assert await service.code("shop:get_order", {"id": "A-17"}, run=run) == "OK"
        assert await service.code("shop:refund", refund, run=run) == "OK"


@pytest.mark.parametrize("page", ["https://evil.io/q", "https%3A%2F%2Fevil.io%2F%3Fq%3D1"])
async def test_what_a_uri_adds_to_a_template_is_an_argument(page: str) -> None:
    templates = [{"uriTemplate": "raw://item/{+page}", "name": "pages"}]
    async with shop(FETCH, templates=templates) as service:
        run = a_run("Read raw://item/7 and https://a.com/x, please.")
        assert await read(service, f"raw://item/{page}", run) == "OK"
        for _ in range(2):
            for uri in ("raw://text", "raw://item/8", "raw://item/https://a.com/x"):
                assert await read(service, uri, run) == "OK"
            assert await read(service, f"raw://item/{page}", run) == "POLICY_DENIED"


async def test_a_running_total_is_exact_in_a_batch() -> None:
    async with shop(TOTAL) as service:
        run = a_run()
        calls = [
            {"tool_name": "shop:refund", "arguments": {"order_id": str(it), "cents": 300}}
            for it in range(10)
        ]
        user = request_of("x")["user"]
        response = await service.http.post(BATCH, json={"calls": calls, "user": user, "run": run})
        codes = [it.get("error", {}).get("code", "OK") for it in response.json()["results"]]
        assert codes.count("OK") == 3
        assert codes.count("POLICY_DENIED") == 7


async def test_a_call_that_was_not_sent_is_no_call_of_its_tool() -> None:
    once = """@id("once") forbid(principal, action == Action::"shop:refund", resource) when {
      context has run && context.run.called["shop:refund"] > 0
    };"""
    refund = {"order_id": "1", "cents": 600}
    async with shop(TOTAL, once, entry={"maxCallsInFlight": 1}) as service:
        run = a_run()
        async with asyncio.TaskGroup() as tasks:
            hanging = tasks.create_task(service.code("shop:hang"))

            async def is_busy() -> bool:
                return await service.code("shop:echo") == "SERVER_BUSY"

            await asyncio.sleep(0.1)
            await eventually(is_busy)
            busy = [await service.code("shop:refund", refund, run=run) for _ in range(4)]
            hanging.cancel()

        async def is_refunded() -> bool:
            return await service.code("shop:refund", refund, run=run) == "OK"

        await eventually(is_refunded)
        assert busy == ["SERVER_BUSY"] * 4
        assert (await refusal(service, "shop:refund", refund, run=run))[1] == ["once", "total"]


async def test_a_default_that_the_gateway_adds_is_an_argument() -> None:
    pay = tool("pay", cents="integer")
    pay["inputSchema"] |= {"required": ["cents"]}
    pay["inputSchema"]["properties"]["cents"]["default"] = 300
    policy = """@id("pays") forbid(principal, action == Action::"shop:pay", resource) when {
      context has run && context.run.total["shop:pay#cents"] + context.args.cents > 700
    };"""
    async with shop(policy, tools=[pay]) as service:
        run = a_run()
        body = request_of("shop:pay", {}, run=run)
        codes = []
        for _ in range(3):
            explained = (await service.http.post("/internal/mcp/explain", json=body)).json()
            codes += [explained["decision"], await service.code("shop:pay", {}, run=run)]
        assert codes == ["pass", "OK", "pass", "OK", "POLICY_DENIED", "POLICY_DENIED"]


async def test_a_run_declares_its_tools_and_that_it_only_reads() -> None:
    async with shop() as service:
        run = a_run(tools=["shop:get_order", "shop:refund"], read_only=False)
        order, refund = {"id": "1"}, {"order_id": "1", "cents": 1}
        assert await service.code("shop:refund", refund, run=run) == "OK"
        found = await refusal(service, "shop:send_email", {"to": "a@b.c"}, run=run)
        assert found == ("POLICY_DENIED", ["run.tools"])
        run |= {"tools": ["shop:get_order", "shop:send_email", "shop:refund"], "read_only": True}
        assert await service.code("shop:get_order", order, run=run) == "OK"
        run = {"id": run["id"]}
        found = await refusal(service, "shop:refund", refund, run=run)
        assert found == ("POLICY_DENIED", ["run.read_only"])
        assert await service.code("shop:send_email", {}, run=run) == "POLICY_DENIED"
        assert await service.code("shop:get_order", order, run=run) == "OK"
        assert await service.code("shop:echo", {}, run=a_run(read_only=True)) == "POLICY_DENIED"


async def test_what_a_failed_request_declares_is_kept() -> None:
    async with shop() as service:
        run = a_run(tools=["shop:send_email"], read_only=True)
        assert await service.code("shop:send_email", {"to": 5}, run=run) == "INVALID_ARGUMENTS"
        run = {"id": run["id"]}
        found = await refusal(service, "shop:send_email", {"to": "a@b.c"}, run=run)
        assert found == ("POLICY_DENIED", ["run.read_only"])
        found = await refusal(service, "shop:get_order", {"id": "1"}, run=run)
        assert found == ("POLICY_DENIED", ["run.tools"])


async def test_what_a_request_over_its_budget_declares_is_kept() -> None:
    rule = {"name": "orders", "match": {"tool": "shop:get_order"}, "window_s": 60, "calls": 1}
    CONFIG_DIR.mkdir()
    write_json(CONFIG_DIR / "limits.json", {"rules": [rule]})
    async with shop() as service:
        order, run = {"id": "1"}, a_run(read_only=True)
        assert await service.code("shop:get_order", order) == "OK"
        assert await service.code("shop:get_order", order, run=run) == "RATE_LIMIT_EXCEEDED"
        refund = {"order_id": "1", "cents": 1}
        found = await refusal(service, "shop:refund", refund, run={"id": run["id"]})
        assert found == ("POLICY_DENIED", ["run.read_only"])


async def test_the_task_of_a_request_over_its_budget_is_kept() -> None:
    rule = {"name": "orders", "match": {"tool": "shop:get_order"}, "window_s": 60, "calls": 1}
    CONFIG_DIR.mkdir()
    write_json(CONFIG_DIR / "limits.json", {"rules": [rule]})
    async with shop(NO_SEND) as service:
        order, run = {"id": "1"}, a_run("Answer bob@x.com")
        assert await service.code("shop:get_order", order) == "OK"
        assert await service.code("shop:get_order", order, run=run) == "RATE_LIMIT_EXCEEDED"
        known = {"id": run["id"]}
        assert await service.code("shop:read_inbox", {"id": "1"}, run=known) == "OK"
        assert await service.code("shop:send_email", {"to": "bob@x.com"}, run=known) == "OK"


async def test_a_failed_request_without_space_for_its_run_asks_to_repeat_the_declaration() -> None:
    async with shop(runs_per_user=1) as service:
        assert await service.code("shop:get_order", {"id": "1"}, run=a_run()) == "OK"
        assert await service.code("nope", run=a_run()) == "TOOL_NOT_FOUND"
        for run in (a_run(read_only=True), a_run(tools=[])):
            assert await service.code("nope", run=run) == "RATE_LIMIT_EXCEEDED"


async def test_a_declaration_that_cannot_be_kept_permits_nothing() -> None:
    async with shop() as service:
        run = a_run(tools=[f"shop:tool_{it}_{'x' * 200}" for it in range(400)])
        assert await service.code("shop:get_order", {"id": "1"}, run=run) == "LOOP_STOPPED"
        found = await refusal(service, "shop:get_order", {"id": "1"}, run={"id": run["id"]})
        assert found == ("POLICY_DENIED", ["run.tools"])


async def test_a_policy_that_cannot_be_evaluated_is_named() -> None:
    async with shop(TOTAL, NO_SEND) as service:
        refund = {"order_id": "1", "cents": 2**63}
        with capture_logs() as lines:
            found = await refusal(service, "shop:refund", refund, run=a_run())
        assert found == ("POLICY_DENIED", ["total"])
        (line,) = (it for it in lines if "run_id" in it)
        assert line["policies"] == [{"id": "total", "mode": "enforce"}]


async def test_the_fourth_identical_failure_is_stopped() -> None:
    async with shop() as service:
        run = a_run()
        codes = [await service.code("shop:is_error", {"a": 1}, run=run) for _ in range(4)]
        assert codes == ["TOOL_FAILED"] * 3 + ["LOOP_STOPPED"]
        assert await service.code("shop:is_error", {"a": 2}, run=run) == "TOOL_FAILED"
        assert await service.code("shop:is_error", {"a": 1}, run=a_run()) == "TOOL_FAILED"
        codes = [await service.code("nope", {}, run=run) for _ in range(4)]
        assert codes == ["TOOL_NOT_FOUND"] * 3 + ["LOOP_STOPPED"]
        agents = ["nobody"] * 4 + [None]
        codes = [await service.code("shop:echo", run=run, agent=it) for it in agents]
        assert codes == ["AGENT_NOT_FOUND"] * 4 + ["OK"]  # the call is the same, not its agent
        window = {"doc_id": "doc_1", "anchor_chunk_id": "c"}
        codes = [await service.code("read_chunk_window", window, run=run) for _ in range(4)]
        assert codes == ["RETRIEVAL_NOT_CONFIGURED"] * 4  # HTTP 503 is no loop


async def test_the_same_id_of_another_caller_is_another_run() -> None:
    async with shop(NO_SEND) as service:
        run = a_run()
        assert await service.code("shop:read_inbox", {"id": "1"}, run=run) == "OK"
        send = {"to": "eve@evil.io"}
        assert await service.code("shop:send_email", send, run=run) == "POLICY_DENIED"
        for user in (
            {"user_id": "user_2", "tenant_id": "tenant_1"},
            {"user_id": "user_1", "tenant_id": "t"},
        ):
            assert await service.code("shop:send_email", send, run=run, user=user) == "OK"


@pytest.mark.parametrize("text", ["forbid(", '@id("x") permit(principal, action, resource);'])
async def test_until_policies_are_valid_no_call_is_made(text: str) -> None:
    async with shop(text) as service:
        assert await service.code("shop:get_order", {"id": "1"}) == "POLICY_UNAVAILABLE"
        assert await service.code("list_available_tools") == "POLICY_UNAVAILABLE"
        (CONFIG_DIR / "policies" / "0.cedar").write_text(NO_SEND)
        async with asyncio.timeout(BOUND_S):
            while await service.code("shop:get_order", {"id": "1"}) != "OK":  # noqa: ASYNC110 - asked over HTTP
                await asyncio.sleep(0.05)


async def test_policies_that_are_added_without_their_engine_permit_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policies, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "mcp_tools_proxy.policy.cedar.active_policies", None)
    async with shop() as service:
        assert await service.code("shop:send_email", {"to": "a@b.c"}) == "OK"
        (CONFIG_DIR / "policies").mkdir()
        (CONFIG_DIR / "policies" / "0.cedar").write_text(NO_SEND)
        async with asyncio.timeout(BOUND_S):
            while await service.code("shop:get_order", {"id": "1"}) == "OK":  # noqa: ASYNC110 - asked over HTTP
                await asyncio.sleep(0.05)
        assert await service.code("shop:get_order", {"id": "1"}) == "POLICY_UNAVAILABLE"


async def test_explain_decides_without_counting() -> None:
    async with shop(TOTAL) as service:
        run = a_run()
        refund = {"order_id": "1", "cents": 700}
        assert await service.code("shop:refund", refund, run=run) == "OK"
        for _ in range(2):
            body = request_of("shop:refund", refund, run=run)
            found = (await service.http.post("/internal/mcp/explain", json=body)).json()
            assert found["decision"] == "POLICY_DENIED"
            assert found["rule"] == {"file": "policies/0.cedar", "path": '@id("total")'}
            verdicts = {it["check"]: it["verdict"] for it in found["checks"]}
            assert (verdicts["budget"], verdicts["run"]) == ("pass", "pass")
        assert await service.code("shop:refund", refund | {"cents": 300}, run=run) == "OK"


async def test_records_name_the_run_and_what_decided() -> None:
    async with shop(NO_SEND.replace('@id("no-send")', '@id("seen") @mode("log_only")')) as service:
        run = a_run()
        with capture_logs() as lines:
            assert await service.code("shop:read_inbox", {"id": "1"}, run=run) == "OK"
            assert await service.code("shop:send_email", {"to": "a@b.c"}, run=run) == "OK"
            assert await service.code("shop:nope", {}, run=run) == "TOOL_NOT_ALLOWED"
        read, sent, failed = (it for it in lines if "run_id" in it)
        assert {it["run_id"] for it in (read, sent, failed)} == {run["id"]}
        assert (read["run_call"], sent["run_call"]) == (1, 2)
        assert list(sent["labels"]) == ["sends"]
        message = "Ask the user for the address."
        assert sent["policies"] == [{"id": "seen", "mode": "log_only", "message": message}]
        exposition = (await service.http.get("/metrics")).text
        assert 'mcp_proxy_policies_fired_total{mode="log_only",policy="seen"} 1.0' in exposition


@pytest.mark.parametrize("place", ["setting", "profile", "limits.json"])
@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("calls", [("shop:get_order", {"id": str(it)}) for it in range(3)]),
        ("tokens", [("shop:get_order", {"id": str(it)}) for it in range(3)]),
        ("errors", [("shop:is_error", {"a": it}) for it in range(3)]),
        ("repeats", [("shop:get_order", {"id": "1"})] * 4),
    ],
)
async def test_a_run_ends_at_its_limit(
    place: str, name: str, calls: list[tuple[str, Json]]
) -> None:
    maximum = {"calls": 2, "tokens": 30, "errors": 2, "repeats": 2}[name]
    settings: dict[str, Any] = {}
    if place == "setting":
        settings[f"run_max_{name}"] = maximum
    CONFIG_DIR.mkdir()
    if place == "profile":
        agents = [{"name": "a", "run": {name: maximum}}, {"name": "b"}]
        write_json(CONFIG_DIR / "agents.json", {"agents": agents})
    if place == "limits.json":
        write_json(CONFIG_DIR / "limits.json", {"rules": [], "run": {name: maximum}})
    context: dict[str, Any] = {"agent": "a"} if place == "profile" else {}
    async with shop(**settings) as service:
        run = a_run()
        codes = [await service.code(*it, run=run, **context) for it in calls]
        assert codes[-1] == "LOOP_STOPPED"
        assert "LOOP_STOPPED" not in codes[:-1]
        envelope = await service.execute(*calls[-1], run=run, **context)
        assert envelope["error"]["details"] == {"limit": name, "max": maximum}
        assert await service.code(*calls[0], run=a_run(), **context) == codes[0]
        if name == "repeats":
            other = ("shop:get_order", {"id": "2"})
            assert await service.code(*other, run=run, **context) == "OK"


async def test_policies_that_do_not_fit_the_tools_are_not_active() -> None:
    wrong = TOTAL.replace("shop:refund#cents", "shop:refund#cent")
    async with shop(TOTAL) as service:
        (CONFIG_DIR / "policies" / "0.cedar").write_text(wrong)
        with capture_logs() as lines:
            await service.gateway.reloader.load()
        (problem,) = (it["reason"] for it in lines if it["event"] == "config.problem")
        assert "shop:refund#cents" in problem
        ready = (await service.http.get("/health/ready")).json()
        assert ready["checks"]["config"]["status"] == "degraded"
        refund = {"order_id": "1", "cents": 1001}
        assert await service.code("shop:refund", refund, run=a_run()) == "POLICY_DENIED"
        (CONFIG_DIR / "policies" / "0.cedar").write_text(TOTAL)
        await service.gateway.reloader.load()
        ready = (await service.http.get("/health/ready")).json()
        assert ready["checks"]["config"]["status"] == "ok"
