"""Explain predicts missing credentials of the caller without contacting the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller
from mcp_tools_proxy.domain.outcome import Failed
from mcp_tools_proxy.gateway.explainer import Explanation
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset
from tests.support.key_file import write_key
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import SERVERS, Service, eventually, running
from tests.support.tokens import bearer

EXPLAIN = "/internal/mcp/explain"
ADMIN = "correct-horse-battery"
ANN = Caller(tenant_id="acme", user_id="ann")
WITHOUT_USER = replace(ANN, user_id="")
WITHOUT_TENANT = replace(ANN, tenant_id=NO_TENANT)
SECRET = {"headers": {"Authorization": "Bearer ${secret:tickets/${caller.tenant_id}}"}}
ASSERTION = {"assertion": {"audience": "tickets"}}


@asynccontextmanager
async def serving(folder: Path, **entry: Any) -> AsyncIterator[tuple[Service, RawServer]]:
    """Serve a raw server; its folder of secrets has one secret, of tenant globex."""
    (folder / "tickets").mkdir()
    (folder / "tickets/globex").write_text("k-globex")
    write_key(folder / "keys.pem")
    async with running_raw(only=("witness",)) as server:
        config = Config(
            servers={"s": {**server.entry, **entry}},
            presets=[make_preset(tools=[("s", "witness")])],
            more={"defaultPresetId": "work"},
        )
        async with running(
            config=config,
            admin_token=ADMIN,
            secrets_dir=folder,
            signing_key_file=folder / "keys.pem",
            public_url="https://gateway.example",
            unlimited=False,
        ) as service:
            yield service, server


def decision_of(explained: Explanation) -> tuple[str, str | None]:
    """Return the deciding check of a call, and its place, as in its record."""
    refusal = explained.refusal
    return ("OK", None) if refusal is None else (refusal.verdict, refusal.check)


async def sessions_of(service: Service) -> Json | None:
    (server,) = (await service.get(SERVERS))["servers"]
    sessions: Json | None = server.get("sessions")
    return sessions


@pytest.mark.parametrize(
    ("entry", "caller", "code"),
    [
        ({"isolation": "tenant"}, ANN, "OK"),
        ({"isolation": "tenant"}, WITHOUT_TENANT, "IDENTITY_REQUIRED"),
        ({"isolation": "user"}, WITHOUT_USER, "IDENTITY_REQUIRED"),
        ({"headers": {"X-Agent": "${caller.agent}"}}, ANN, "IDENTITY_REQUIRED"),
        ({"forward": ["agent"]}, ANN, "IDENTITY_REQUIRED"),
        ({"forward": ["tenant_id"]}, ANN, "OK"),
        (ASSERTION, WITHOUT_USER, "IDENTITY_REQUIRED"),
        (ASSERTION, ANN, "OK"),
        (SECRET, ANN, "CREDENTIALS_MISSING"),
        (SECRET, replace(ANN, tenant_id="x/../globex"), "CREDENTIALS_MISSING"),
        (SECRET, replace(ANN, tenant_id="globex"), "OK"),
    ],
)
async def test_a_missing_credential_is_predicted_and_nothing_is_sent(
    tmp_path: Path, entry: Json, caller: Caller, code: str
) -> None:
    call = Call(name="s:witness", caller=caller, trace_id="t")
    async with serving(tmp_path, **entry) as (service, server):
        explained = await service.gateway.explainer.explain(call)
        assert not server.script.calls
        assert (await sessions_of(service) or {"open": 0})["open"] == 0
        again = await service.gateway.explainer.explain(call)
        with capture_logs() as lines:
            outcome = await service.gateway.executor.execute(call)
    assert [it.remaining for it in explained.budgets] == [it.remaining for it in again.budgets]
    assert (outcome.error.code if isinstance(outcome, Failed) else "OK") == code
    (record,) = [it for it in lines if "code" in it]
    assert decision_of(explained) == (record["code"], record.get("check"))


async def test_operators_see_the_path_of_a_secret_and_callers_do_not(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, **SECRET) as (service, _):
        user = {"tenant_id": "acme", "user_id": "ann"}
        body = {"tool_name": "s:witness", "user": user}
        shown = (await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))).json()
    assert (shown["decision"], shown["check"]) == ("CREDENTIALS_MISSING", "server")
    (refused,) = [it for it in shown["checks"] if it["verdict"] == "CREDENTIALS_MISSING"]
    assert "tickets" not in refused["message"]
    assert refused["reason"] == "secret tickets/acme does not exist"


async def test_a_server_with_caller_sessions_can_answer_while_its_discovery_is_down(
    tmp_path: Path,
) -> None:
    call = Call(name="s:witness", caller=ANN, trace_id="t")
    async with serving(tmp_path, isolation="tenant") as (service, server):
        await server.stop()

        async def is_lost() -> bool:
            (shown,) = (await service.get(SERVERS))["servers"]
            return bool(shown["state"] != "ready")

        await eventually(is_lost)
        explained = await service.gateway.explainer.explain(call)
    (last,) = [it for it in explained.checks if it.check == "server"]
    assert last.verdict == "not_checked"
    assert last.message is not None
    assert "each caller has its own session" in last.message
