"""The report of a run, from its audit records (contract §1)."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.outcome import Ok
from mcp_tools_proxy.domain.run import RunRequest
from tests.api.mail_service import NO_SEND, a_run, mail_service
from tests.support.builders import make_document
from tests.support.mcp_endpoint import Served, serving
from tests.support.service import BATCH, EXECUTE, Service, eventually, request_of, running
from tests.support.tables import named_row
from tests.support.tokens import bearer, file_token, token_settings
from tests.support.worker_groups import joined

RUNS, AUDIT = "/internal/mcp/runs", "/internal/mcp/audit"
ADMIN = "correct-horse-battery"
FIRST_USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
OTHER_USER = {"user_id": "user_2", "tenant_id": "tenant_1"}
OTHER_TENANT = {"user_id": "user_1", "tenant_id": "tenant_2"}


async def ask(service: Service, run_id: str, token: str = ADMIN, **query: str) -> Any:
    return await service.http.get(f"{RUNS}/{run_id}", params=query, headers=bearer(token))


async def report(service: Service, run: Any, **query: str) -> Any:
    response = await ask(service, run["id"], **query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_report_tells_what_a_run_read_sent_and_was_refused() -> None:
    async with mail_service(NO_SEND, admin_token=ADMIN) as service:
        run = a_run()
        assert await service.code("shop:send_email", {"to": "a@b.c"}, run=run) == "OK"
        assert await service.code("shop:read_inbox", {"id": "1"}, run=run) == "OK"
        pages = {"doc_id": "doc_1", "page_start": 1, "page_end": 2}
        assert await service.code("read_doc_pages", pages, run=run) == "OK"
        assert await service.code("shop:send_email", {"to": "a@b.c"}, run=run) == "POLICY_DENIED"
        assert await service.code("shop:is_error", {}, run=run) == "TOOL_FAILED"
        found = await report(service, run)
    assert (found["run_id"], found["tenant_id"], found["user_id"]) == (
        *(run["id"], "tenant_1", "user_1"),
    )
    assert [(it["name"], it.get("number"), it["outcome"]) for it in found["calls"]] == [
        ("shop:send_email", 1, "ok"),
        ("shop:read_inbox", 2, "ok"),
        ("read_doc_pages", 3, "ok"),
        ("shop:send_email", None, "refused"),
        ("shop:is_error", 5, "failed"),
    ]
    refused = found["calls"][3]
    assert refused["policies"] == [
        {"id": "no-send", "mode": "enforce", "message": "Ask the user for the address."}
    ]
    assert found["refused"] == [
        {"code": "POLICY_DENIED", "check": "policy", "policy_ids": ["no-send"], "calls": 1}
    ]
    (document,) = found["documents"]
    assert (document["doc_id"], len(document["version"])) == ("doc_1", 64)
    assert document["pages"] == [[1, 2]]
    inbox = {"name": "shop:read_inbox", "kind": "tool", "server_id": "shop", "ok": 1, "failed": 0}
    assert inbox in found["read"]
    (sent,), (written,) = found["sent"], found["written"]
    assert (sent["name"], sent["ok"], sent["failed"]) == ("shop:send_email", 1, 0)
    assert (written["name"], written["ok"], written["failed"]) == ("shop:is_error", 0, 1)
    sums = found["sums"]
    assert (sums["calls"], sums["refused"], sums["failed"]) == (5, 1, 1)
    assert sums["tokens"] > 0
    assert sums["duration_ms"] > 0
    assert "incomplete" not in found


async def test_calls_of_a_batch_are_in_the_order_of_their_numbers() -> None:
    async with mail_service(admin_token=ADMIN) as service:
        run = a_run()
        calls = [{"tool_name": "shop:echo", "arguments": {"n": it}} for it in range(20)]
        body = {"calls": calls, "user": request_of("x")["user"], "run": run}
        await service.http.post(BATCH, json=body)
        found = await report(service, run)
    assert [it["number"] for it in found["calls"]] == [*range(1, 21)]


async def test_the_same_id_of_several_callers_is_several_runs() -> None:
    async with mail_service(admin_token=ADMIN) as service:
        run = a_run()
        for user, tool in (
            (request_of("x")["user"], "shop:read_inbox"),
            (OTHER_USER, "shop:send_email"),
            (OTHER_TENANT, "shop:echo"),
        ):
            assert await service.code(tool, {}, run=run, user=user) == "OK"
        response = await ask(service, run["id"])
        assert response.status_code == 422
        owners = response.json()["error"]["details"]["owners"]
        for it in (FIRST_USER, OTHER_USER, OTHER_TENANT):
            assert dict(it, stand_in="false") in owners
        assert len(owners) == 3
        seen = []
        for owner in owners:
            found = await report(service, run, **owner)
            assert len(found["calls"]) == 1
            seen.append(found["calls"][0]["name"])
        assert sorted(seen) == ["shop:echo", "shop:read_inbox", "shop:send_email"]
        found = await report(service, run, tenant_id="tenant_2")
        assert found["user_id"] == "user_1"
        assert [it["name"] for it in found["calls"]] == ["shop:echo"]


async def test_the_run_of_a_caller_without_a_user_can_be_chosen() -> None:
    async with running(admin_token=ADMIN) as service:
        for tenant_id, user_id in (("tenant_1", ""), ("tenant_1", "user_1"), (NO_TENANT, "user_1")):
            caller = Caller(tenant_id=tenant_id, user_id=user_id)
            call = Call(
                name="list_available_tools",
                caller=caller,
                trace_id="t",
                run=RunRequest(run_id="r1"),
            )
            assert isinstance(await service.gateway.executor.execute(call), Ok)
        owners = (await ask(service, "r1")).json()["error"]["details"]["owners"]
        found = [await report(service, {"id": "r1"}, **it) for it in owners]
    assert {(it["tenant_id"], it.get("user_id")) for it in found} == {
        *(("tenant_1", None), ("tenant_1", "user_1"), ("", "user_1")),
    }


async def test_an_unknown_run_is_not_found_and_the_error_says_what_to_check() -> None:
    async with mail_service(admin_token=ADMIN) as service:
        run = a_run()
        assert await service.code("shop:echo", {}, run=run) == "OK"
        for run_id, query in (
            ("none", {}),
            (run["id"], {"user_id": "user_9"}),
            (run["id"], {"tenant_id": "tenant_9"}),
            (run["id"], {"token_id": "t"}),
        ):
            response = await ask(service, run_id, **query)
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (404, "NOT_FOUND")
            assert "MCP_PROXY_AUDIT" in error["message"]


async def test_only_operators_with_the_right_audit_for_the_tenant_read_runs() -> None:
    audit = {OperatorRight.AUDIT}
    own, other = file_token(may=audit), file_token(tenant="tenant_2", may=audit)
    every, none = file_token(tenant=None, may=audit), file_token()
    user = file_token(user="ann")
    async with running(**token_settings()) as service:
        body = {"tool_name": "list_available_tools", "run": {"id": "r"}}
        await service.http.post(EXECUTE, json=body, headers=bearer(user))
        for token, tenant, status in (
            (own, "tenant_1", 200),
            (own, None, 403),
            (other, "tenant_1", 403),
            (other, "tenant_2", 404),
            (every, None, 200),
            (none, "tenant_1", 403),
            (user, "tenant_1", 403),
        ):
            with named_row(tenant, status):
                query = {} if tenant is None else {"tenant_id": tenant}
                assert (await ask(service, "r", token, **query)).status_code == status
        assert (await service.http.get(f"{RUNS}/r")).status_code == 401


async def test_runs_of_tokens_and_of_stand_ins_are_told_apart() -> None:
    async with running(admin_token=ADMIN) as service:
        call = {"tool": "t", "kind": "tool", "code": "OK", "tenant_id": "a", "run_id": "r"}
        for more in (
            {"user_id": "ann"},
            {"user_id": "ann", "token_id": "t1", "stand_in": True},
            {"user_id": "", "token_id": "t1"},
            {"user_id": "", "token_id": "t2"},
            {"user_id": "", "issuer": "i", "subject": "s"},
        ):
            service.gateway.audit.record("info", "tool.call", "t", {**call, **more})
        owners = (await ask(service, "r")).json()["error"]["details"]["owners"]
        assert len(owners) == 5
        assert {"tenant_id": "a", "user_id": "ann", "token_id": "t1", "stand_in": "true"} in owners
        for owner in owners:
            found = await report(service, {"id": "r"}, **owner)
            assert len(found["calls"]) == 1
            assert found.get("token_id") == owner.get("token_id")


async def test_a_report_is_exported_as_a_file() -> None:
    async with mail_service(admin_token=ADMIN) as service:
        run = {"id": "a/b c?d=ü"}
        assert await service.code("shop:echo", {}, run=run) == "OK"
        response = await ask(service, "a%2Fb%20c%3Fd%3D%C3%BC", format="json")
        assert response.headers["content-disposition"] == 'attachment; filename="run.json"'
        assert response.headers["content-type"] == "application/json"
        assert response.json()["run_id"] == run["id"]


async def test_records_of_a_run_are_searched_by_its_id() -> None:
    async with mail_service(admin_token=ADMIN) as service:
        run = a_run()
        assert await service.code("shop:echo", {}, run=run) == "OK"
        assert await service.code("shop:echo", {}, run=a_run()) == "OK"
        response = await service.http.get(
            AUDIT, params={"run_id": run["id"]}, headers=bearer(ADMIN)
        )
        (record,) = response.json()["records"]
        assert record["payload"]["run_id"] == run["id"]


def _approval(service: Service, event: str, run_id: str, **payload: object) -> None:
    service.gateway.audit.record("info", event, "t", {"run_id": run_id, **payload})


@pytest.mark.parametrize("call_names_it", [True, False])
async def test_approvals_are_those_of_the_runs_own_calls(*, call_names_it: bool) -> None:
    async with mail_service(admin_token=ADMIN) as service:
        run_id = a_run()["id"]
        call = {"tool": "shop:send_email", "kind": "tool", "tenant_id": "tenant_1"}
        for user, approval in (("user_1", "a1"), ("user_2", "a2")):
            payload = {**call, "user_id": user, "code": "APPROVAL_PENDING"}
            named = {"approval_id": approval} if call_names_it else {}
            _approval(service, "tool.call", run_id, **payload, **named)
            more = {"tenant_id": "tenant_1", "approval_id": approval, "policies": ["second"]}
            _approval(service, "approval.asked", run_id, **more, user_id=user)
            _approval(service, "approval.decided", run_id, **more, actor="boss", decision="yes")
        found = await report(service, {"id": run_id}, tenant_id="tenant_1", user_id="user_1")
    assert found["calls"][0]["outcome"] == "pending"
    assert [(it["event"], it["approval_id"], it["by"]) for it in found["approvals"]] == [
        ("approval.asked", "a1", "user_1"),
        ("approval.decided", "a1", "boss"),
    ]
    assert found["approvals"][1]["policy_ids"] == ["second"]
    assert found["sums"]["refused"] == 0


async def test_a_long_run_says_that_it_is_incomplete() -> None:
    async with mail_service(admin_token=ADMIN, audit="file:audit.jsonl") as service:
        run = {"id": "long"}
        payload = {"code": "OK", "tool": "t", "tenant_id": "a", "user_id": "u", "run_id": "long"}
        for number in range(1, 1_102):
            service.gateway.audit.record("info", "tool.call", "t", {**payload, "run_call": number})
            if number % 100 == 0:
                await asyncio.sleep(0.05)

        async def is_written() -> bool:
            return bool((await report(service, run))["calls"][-1]["number"] == 1_101)

        await eventually(is_written)
        found = await report(service, run)
    assert found["incomplete"] is True
    assert [it["number"] for it in found["calls"]] == [*range(102, 1_102)]


async def test_documents_of_searches_and_other_tools_are_reported() -> None:
    other = make_document(doc_id="other", pages=["Pumps and valves.", "More valves."])
    async with running(other, admin_token=ADMIN) as service:
        run = a_run()
        for tool, arguments in (
            ("doc_local_search", {"doc_id": "other", "query": "valves"}),
            ("verify_quote", {"doc_id": "other", "quote": "More valves."}),
            ("read_doc_metadata", {"doc_id": "doc_1"}),
        ):
            assert await service.code(tool, arguments, run=run) == "OK"
        found = await report(service, run)
    assert [it["documents"][0].get("pages") for it in found["calls"]] == [
        *([[1, 2]], [[2, 2]], None)
    ]
    assert [it["doc_id"] for it in found["documents"]] == ["other", "doc_1"]


@pytest.mark.parametrize("audit", ["memory", "files"])
async def test_a_report_has_the_calls_of_all_workers(audit: str, tmp_path: Path) -> None:
    files: dict[str, Any] = (
        {"audit": f"file:{tmp_path}/{{worker}}/audit.jsonl"} if audit == "files" else {}
    )
    async with AsyncExitStack() as stack:
        found = [
            await stack.enter_async_context(serving(workers=it, admin_token=ADMIN, **files))
            for it in joined(2)
        ]
        call = {"tool": "t", "code": "OK", "tenant_id": "a", "user_id": "u", "run_id": "r"}
        for number in range(1, 7):
            trail = found[number % 2].service.gateway.audit
            trail.record("info", "tool.call", "t", {**call, "run_call": number})

        for worker in found:

            async def is_complete(worker: Served = worker) -> bool:
                answer = await worker.http.get(f"{RUNS}/r", headers=bearer(ADMIN))
                calls = answer.json().get("calls", ())
                return [it["number"] for it in calls] == [*range(1, 7)]

            await eventually(is_complete)
