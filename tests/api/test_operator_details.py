"""Details of servers and readiness that only operators see."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_preset
from tests.support.service import READY, SERVERS, Service, running
from tests.support.tokens import MODES, TOKENS_FILE, bearer, file_token, token_settings

NOWHERE = {"command": "/no/such/program"}
ADMIN = "an-admin-token-of-16"


@asynccontextmanager
async def broken(**settings: Any) -> AsyncIterator[Service]:
    """Start with a server that cannot be started and an invalid preset file."""
    config = Config(servers={"s1": NOWHERE}, presets=[make_preset(), {"id": "bad", "tools": 5}])
    async with running(config=config, **settings) as service:
        yield service


async def both(service: Service, headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    ready = await service.http.get(READY, headers=headers)
    servers = await service.http.get(SERVERS, headers=headers)
    assert (ready.status_code, servers.status_code) == (200, 200)
    return ready.json(), servers.json()["servers"][0]


def shows_details(ready: dict[str, Any], server: dict[str, Any]) -> tuple[bool, bool]:
    return "problems" in ready["checks"]["config"], "last_error" in server


@pytest.mark.parametrize("mode", MODES)
async def test_a_caller_sees_states_but_no_errors(mode: str) -> None:
    settings, make = MODES[mode]
    made = settings()
    async with broken(**made, admin_token=ADMIN) as service:
        token, admin = make(), make(tenant=None, admin=True)
        assert service.gateway.tokens is not None
        await service.gateway.tokens.load()
        ready, server = await both(service, bearer(token))
        assert shows_details(ready, server) == (False, False)
        assert "no/such" not in str((ready, server))
        assert (ready["status"], server["server_id"], "state" in server) == ("degraded", "s1", True)
        checks = ready["checks"]
        assert {"status", "state"} <= checks["server:s1"].keys()
        assert checks["config"]["status"] == "ok"
        other = make(may={*OperatorRight} - {OperatorRight.PRESETS})
        of_tenant = make(admin=True)
        await service.gateway.tokens.load()
        for caller in (other, of_tenant):
            assert shows_details(*await both(service, bearer(caller))) == (False, False)
        for operator in (admin, ADMIN):
            assert shows_details(*await both(service, bearer(operator))) == (True, True)


@pytest.mark.parametrize("headers", [{}, bearer("mtp_bad"), {"Authorization": "x"}])
async def test_a_probe_sees_status_and_states(headers: dict[str, str]) -> None:
    async with broken(**token_settings()) as service:
        response = await service.http.get(READY, headers=headers)
        checks = response.json()["checks"]
    assert (response.status_code, "problems" in checks["config"]) == (200, False)
    assert "state" in checks["server:s1"]


async def test_without_authentication_every_caller_sees_all_details() -> None:
    async with broken() as service:
        assert shows_details(*await both(service, {})) == (True, True)


async def test_readiness_ignores_invalid_tokens_and_records_none() -> None:
    async with broken(**token_settings()) as service:
        with capture_logs() as lines:
            for _ in range(30):
                response = await service.http.get(READY, headers=bearer("mtp_bad"))
                assert response.status_code == 200
            refused = await service.http.get(SERVERS, headers=bearer("mtp_bad"))
        admin = file_token(tenant=None, admin=True)
        assert (service.gateway.tokens is not None, TOKENS_FILE.exists()) == (True, True)
        await service.gateway.tokens.load()  # type: ignore[union-attr]
        ready = (await service.http.get(READY, headers=bearer(admin))).json()
    assert [line["event"] for line in lines if "refused" in line["event"]] == ["request.refused"]
    assert "Retry-After" not in refused.headers
    assert "problems" in ready["checks"]["config"]
