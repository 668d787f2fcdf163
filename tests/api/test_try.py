"""Operators with the right ``run`` run tools as another user, which is recorded.

A user whose JWT names them runs tools as themselves."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.document import Readers
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import BATCH, EXECUTE, Service, running
from tests.support.signing import ISSUER
from tests.support.tokens import (
    MODES,
    TOKENS_FILE,
    bearer,
    file_token,
    signed_token,
    token_settings,
)

TRY = "/internal/mcp/try"
ADMIN = "correct-horse-battery"
RUN, DOCUMENTS, AUDIT = OperatorRight.RUN, OperatorRight.DOCUMENTS, OperatorRight.AUDIT
EVERY_OTHER = frozenset(OperatorRight) - {RUN}
USER = {"tenant_id": "tenant_1", "user_id": "ann"}
METADATA = ("read_doc_metadata", {"doc_id": "doc_1"})
TOOLS = ("counter", "counter_safe", "echo", "big_image", "is_error")


async def attempt(
    service: Service,
    token: str | None,
    tool: str = "s:counter",
    arguments: Json | None = None,
    **more: Any,
) -> httpx.Response:
    body = {"tool_name": tool, "arguments": arguments or {}, "user": USER, **more}
    headers = {} if token is None else bearer(token)
    return await service.http.post(TRY, json=body, headers=headers)


def code(answer: httpx.Response) -> str:
    envelope = answer.json()
    return "OK" if envelope["status"] == "ok" else str(envelope["error"]["code"])


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[Service, RawServer]]:
    """Serve one raw server, and an agent that may not use its counter."""
    async with running_raw(only=TOOLS) as server:
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset(tools=[("s", it) for it in TOOLS])],
            agents=[make_agent("helper"), make_agent("narrow", exclude=["s:counter"])],
            more={"defaultPresetId": "work"},
        )
        async with running(config=config, require_agent=False, **settings) as service:
            yield service, server


async def test_the_answer_has_the_fields_of_a_call_and_details_for_people() -> None:
    async with serving(admin_token=ADMIN, unlimited=False) as (service, _):
        tool, arguments = METADATA
        made = await service.http.post(
            EXECUTE, json={"tool_name": tool, "arguments": arguments, "user": USER}
        )
        tried = await attempt(service, ADMIN, tool, arguments)
        again = await attempt(service, ADMIN, "s:echo", {"text": "hello"})
    shown = tried.json()
    assert (tried.status_code, shown["result"]) == (200, made.json()["result"])
    assert tried.headers["RateLimit"].startswith('"')
    assert shown["text"].startswith('{"doc_id":"doc_1"')
    assert shown["elapsed_ms"] > 0
    left = {it["name"]: (it["limit"], it["remaining"]) for it in shown["budgets"]}
    assert (left["document_calls"], left["tenant_calls"]) == ((120, 118), (6000, 5998))
    assert shown["budgets"][0]["rule"]["file"] == "settings"
    assert [it["remaining"] for it in again.json()["budgets"] if it["name"] == "tenant_calls"] == [
        5997
    ]


@pytest.mark.parametrize("tool", ["big_image", "is_error"])
async def test_the_text_is_that_for_models_with_text_results(tool: str) -> None:
    async with serving(admin_token=ADMIN) as (service, _):
        function = {"name": f"s__{tool}", "arguments": '{"bytes": 100}'}
        calls = [{"id": "1", "type": "function", "function": function}]
        replied = await service.http.post(BATCH, json={"calls": calls, "user": USER})
        tried = await attempt(service, ADMIN, f"s:{tool}", {"bytes": 100})
    (message,) = replied.json()["messages"]
    assert tried.json()["text"] == message["content"] != ""


@pytest.mark.parametrize("mode", MODES)
async def test_running_needs_the_right_for_the_tenant(mode: str) -> None:
    settings, mint = MODES[mode]
    without = (
        mint(user="bob"),
        mint(tenant=None, may=EVERY_OTHER, admin=True),
        mint(tenant="tenant_2", may=OperatorRight),
    )
    own, of_all = mint(may=[RUN]), mint(tenant=None, may=[RUN])
    async with serving(**settings()) as (service, server):
        for token in without:
            refused = await attempt(service, token)
            assert (refused.status_code, code(refused)) == (403, "FORBIDDEN")
            assert '"run"' in refused.json()["error"]["message"]
        unnamed = await attempt(service, own, user={"user_id": "ann"})
        assert (unnamed.status_code, code(unnamed)) == (403, "FORBIDDEN")
        missing = await attempt(service, of_all, user={"user_id": "ann"})
        assert missing.json()["error"]["details"] == {"field": "user.tenant_id"}
        missing = await attempt(service, own, user={"tenant_id": "tenant_1"})
        assert missing.json()["error"]["details"] == {"field": "user.user_id"}
        assert (await attempt(service, None)).status_code == 401
        assert server.script.calls["counter"] == 0
        assert code(await attempt(service, own)) == "OK"
        assert code(await attempt(service, of_all)) == "OK"
        assert server.script.calls["counter"] == 2


async def test_without_a_token_impersonation_is_refused_on_loopback_too() -> None:
    async with serving() as (service, server):
        refused = await attempt(service, None)
        assert (refused.status_code, code(refused)) == (403, "FORBIDDEN")
        assert "MCP_PROXY_ADMIN_TOKEN" in refused.json()["error"]["message"]
        assert server.script.calls["counter"] == 0


async def test_a_tool_that_reads_documents_needs_the_right_for_them() -> None:
    runs, reads = file_token(may=[RUN]), file_token(may=[RUN, DOCUMENTS])
    async with serving(**token_settings(), unlimited=False) as (service, _):
        for tool, arguments in (METADATA, ("list_documents", {}), ("read_doc_metadata", {})):
            # the remaining budget of a document would reveal its existence
            refused = await attempt(service, runs, tool, arguments)
            assert (refused.status_code, code(refused)) == (403, "FORBIDDEN")
            assert '"documents"' in refused.json()["error"]["message"]
            assert (refused.json()["budgets"], "RateLimit" in refused.headers) == ([], False)
        assert code(await attempt(service, runs, "list_available_tools")) == "OK"
        assert code(await attempt(service, reads, *METADATA)) == "OK"


async def test_the_record_has_the_operator_and_the_impersonated_user() -> None:
    token = file_token(tenant=None, may=[RUN, DOCUMENTS, AUDIT])
    token_id = json.loads(TOKENS_FILE.read_text())["id"]
    async with serving(**token_settings()) as (service, _):
        with capture_logs() as lines:
            await attempt(service, token, *METADATA)
            await attempt(service, token, trace_id="t-2")
        records = [it for it in lines if "code" in it]
        query = {"token_id": token_id, "tenant_id": "tenant_1"}
        found = await service.http.get("/internal/mcp/audit", params=query, headers=bearer(token))
    assert [it["event"] for it in records] == ["tool.call", "facade_to_llm.response"]
    for record in records:
        who = {it: record[it] for it in ("tenant_id", "user_id", "token_id", "stand_in", "route")}
        assert who == {**USER, "token_id": token_id, "stand_in": True, "route": f"POST {TRY}"}
    assert (records[1]["trace_id"], records[1]["entry"]) == ("t-2", "api")
    assert [it["payload"]["stand_in"] for it in found.json()["records"]] == [True, True]


async def test_the_record_has_the_operators_jwt_and_a_refusal_has_the_right() -> None:
    settings, _ = MODES["jwt"]
    async with serving(**settings()) as (service, _):
        token = signed_token(user="carla", may=[RUN])
        with capture_logs() as lines:
            await attempt(service, token)
            await attempt(service, token, user={"tenant_id": "tenant_1"})
            await service.http.post(EXECUTE, json={"tool_name": "s:echo"}, headers=bearer(token))
    tried, refused, own = [it for it in lines if "code" in it]
    assert (tried["user_id"], tried["issuer"], tried["subject"]) == ("ann", ISSUER, "carla")
    assert (refused["code"], refused["right"], refused["subject"]) == (
        *("INVALID_REQUEST", "run", "carla"),
    )
    assert (own["user_id"], own["subject"], "stand_in" in own) == ("carla", "carla", False)


async def test_a_user_named_by_a_jwt_calls_as_themselves() -> None:
    settings, _ = MODES["jwt"]
    async with serving(**settings()) as (service, server):
        token = signed_token(user="ann", roles=("staff",))
        with capture_logs() as lines:
            answers = [
                await attempt(service, token, user={**USER, **more})
                for more in ({}, {"roles": ["staff"]}, {"roles": ["chief"]}, {"user_id": "bob"})
            ]
    assert [code(it) for it in answers] == ["OK", "OK", "FORBIDDEN", "FORBIDDEN"]
    assert [key in answers[0].json() for key in ("text", "elapsed_ms", "budgets")] == [True] * 3
    own, same, *refused = [it for it in lines if "code" in it]
    assert (own["user_id"], own["subject"], own["route"]) == ("ann", "ann", f"POST {TRY}")
    assert ["stand_in" in it or "right" in it for it in (own, same)] == [False, False]
    assert len(refused) == 2
    assert server.script.calls["counter"] == 2


@pytest.mark.parametrize("may", [(), (RUN, DOCUMENTS)])
async def test_users_who_call_as_themselves_have_the_roles_of_the_jwt(
    may: tuple[OperatorRight, ...],
) -> None:
    settings, _ = MODES["jwt"]
    document = make_document(doc_id="staff", readers=Readers(roles=frozenset({"staff"})))
    async with running(document, **settings()) as service:
        token = signed_token(user="ann", roles=("staff",), may=may)
        answers = [
            await attempt(service, token, METADATA[0], {"doc_id": "staff"}, user={**USER, **more})
            for more in ({}, {"user_id": "bob"})
        ]
    other = "ACCESS_DENIED" if may else "FORBIDDEN"
    assert [code(it) for it in answers] == ["OK", other]


async def test_runs_are_charged_to_the_budgets_of_the_tenant() -> None:
    async with serving(admin_token=ADMIN, unlimited=False, rate_limit_tenant_calls=2) as (
        service,
        _,
    ):
        assert [code(await attempt(service, ADMIN)) for _ in range(2)] == ["OK", "OK"]
        assert await service.code("s:counter") == "RATE_LIMIT_EXCEEDED"
        assert code(await attempt(service, ADMIN)) == "RATE_LIMIT_EXCEEDED"
        other = {"tenant_id": "tenant_2", "user_id": "ann"}
        assert code(await attempt(service, ADMIN, user=other)) == "OK"


async def test_the_operators_agents_and_documents_also_apply() -> None:
    private = make_document(doc_id="doc_2", tenant_id="tenant_1")
    token = file_token(may=[RUN, DOCUMENTS], agents=("a",), documents=("doc_1",))
    config = Config(agents=[make_agent("a"), make_agent("b")])
    async with running(private, config=config, **token_settings()) as service:
        tool = "read_doc_metadata"
        assert code(await attempt(service, token, tool, {"doc_id": "doc_1"})) == "OK"
        assert code(await attempt(service, token, tool, {"doc_id": "doc_2"})) == "ACCESS_DENIED"
        assert code(await attempt(service, token, *METADATA, documents=[])) == "ACCESS_DENIED"
        assert code(await attempt(service, token, *METADATA, agent="b")) == "FORBIDDEN"


async def test_the_agent_limits_the_allowed_tools() -> None:
    async with serving(admin_token=ADMIN) as (service, _):
        refused = await attempt(service, ADMIN, agent="narrow")
        assert code(refused) == "TOOL_NOT_ALLOWED"
        assert refused.json()["text"].startswith("TOOL_NOT_ALLOWED")
        assert code(await attempt(service, ADMIN, agent="helper")) == "OK"


async def test_idempotency_keys_of_operators_are_separate() -> None:
    user, one, other = file_token(user="ann"), file_token(may=[RUN]), file_token(may=[RUN])
    async with serving(**token_settings()) as (service, server):
        body = {"tool_name": "s:counter", "idempotency_key": "k"}
        await service.http.post(EXECUTE, json=body, headers=bearer(user))
        tries = [
            (await attempt(service, token, idempotency_key="k")).json()
            for token in (one, one, other)
        ]
        assert ["replayed" in it for it in tries] == [False, True, False]
        assert server.script.calls["counter"] == 3
