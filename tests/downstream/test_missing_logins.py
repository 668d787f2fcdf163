import pytest
from aiohttp import web

from tests.downstream.caller_gateway import TOOLS, serving_entry
from tests.downstream.oauth_calls import (
    call,
    code,
    jwt_of,
    jwt_settings,
    last_reason,
)
from tests.downstream.oauth_sign_ins import (
    SETTINGS,
    ready,
    shown,
    sign_in,
    sign_out,
    signing_in,
    state,
)
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.oauth_issuer import protect, running_issuer
from tests.support.service import READY, eventually


async def test_operators_see_the_sign_in_command_and_callers_see_who_must_sign_in() -> None:
    async with signing_in() as (service, _, issuer):
        error = (await call(service))["error"]
        assert error["message"] == (
            "server s is unavailable: an operator has to sign in to server s first; tell the user"
        )
        assert "retry_after_s" not in error
        advice = "sign in with: mcp-tools-proxy login s"
        assert (await shown(service))["last_error"].endswith(
            f"/mcp: there is no login yet; {advice}"
        )
        assert last_reason(service).endswith(f"/mcp: there is no login yet; {advice}")
        login = await sign_in()
        await ready(service)
        issuer.refused.add(login.access_token)
        issuer.refreshes.clear()
        answer = await call(service)
        assert code(answer) == "LOGIN_REQUIRED"
        assert last_reason(service) == f"the issuer refused to renew the login; {advice}"
    assert "mcp-tools-proxy" not in str(answer)


async def test_an_operator_creates_the_login_that_discovers_a_server() -> None:
    async with running_issuer() as issuer, running_raw(only=TOOLS) as server:
        protect(server, issuer)
        entry = {
            **server.entry,
            "isolation": "user",
            "auth": {"type": "oauth", "for": "user"},
            "discoveryCaller": {"tenant_id": "acme", "user_id": "ann b"},
        }
        async with serving_entry(entry, **SETTINGS, **jwt_settings(issuer)) as service:
            answer = await call(service, token=jwt_of(issuer, sub="bob"))
            reason = last_reason(service)
    assert "an operator has to sign in to server s first" in answer["error"]["message"]
    assert reason.endswith("mcp-tools-proxy login s --tenant acme --user 'ann b'")


async def test_a_server_reports_a_lost_login_and_works_after_the_next_sign_in() -> None:
    async with signing_in() as (service, _, issuer):
        login = await sign_in()
        await ready(service)
        await sign_out()
        issuer.refused.add(login.access_token)

        async def is_missing() -> bool:
            assert code(await call(service)) == "LOGIN_REQUIRED"
            return await state(service) == "login_required"

        await eventually(is_missing)
        assert (await service.http.get(READY)).json()["status"] == "degraded"
        await sign_in()
        assert code(await call(service)) == "OK"
        await ready(service)


@pytest.mark.parametrize(
    ("metadata", "status", "reason"),
    [
        ({}, 200, None),
        ({}, 503, "ISSUER answered with HTTP status 503"),
        ({}, 401, "the issuer ISSUER answered with HTTP status 401"),
        ({"revocation_endpoint": None}, 200, "issuer ISSUER does not support revoking tokens"),
    ],
    ids=["revoked", "down", "refused", "not possible"],
)
async def test_a_login_is_deleted_even_if_it_cannot_be_revoked(
    metadata: Json, status: int, reason: str | None
) -> None:
    async with signing_in() as (_, _, issuer):
        await sign_in()
        issuer.metadata = metadata
        issuer.instead = lambda request: (
            web.Response(status=status) if request.path == "/revoke" else None
        )
        ended = await sign_out()
        assert ended is not None
        assert ended.not_revoked == (reason and reason.replace("ISSUER", issuer.url))
        assert await sign_out() is None


@pytest.mark.parametrize(
    ("client_id", "expected"),
    [(None, "LOGIN_REQUIRED"), ("proxy", "CREDENTIALS_INSUFFICIENT")],
    ids=["registered", "configured"],
)
async def test_a_client_unknown_to_its_issuer_is_registered_again_by_a_sign_in(
    client_id: str | None, expected: str
) -> None:
    async with running_issuer() as issuer, running_raw(only=TOOLS) as server:
        protect(server, issuer)
        auth: Json = {"type": "oauth"}
        if client_id is not None:
            client = {"clientId": client_id, "clientSecret": "s3cret"}
            auth |= {**client, "authorizationServer": issuer.url}
        async with serving_entry({**server.entry, "auth": auth}, **SETTINGS) as service:
            login = await sign_in()
            await ready(service)
            issuer.refused.add(login.access_token)
            known = {**issuer.secrets}
            issuer.secrets.clear()
            assert code(await call(service)) == expected
            issuer.secrets |= known if client_id else {}
            if client_id is None:
                await sign_in()
            assert code(await call(service)) == "OK"
