"""Users manage their own logins through the HTTP API; operators manage those of others."""

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.login_pages.page_gateway import LOGINS, PageGateway, page_gateway
from tests.support.configuration import Json
from tests.support.service import running
from tests.support.tokens import bearer

OPERATOR: Json = {"tenant_id": ..., "sub": "root", "may": [OperatorRight.LOGINS.value]}


async def send(
    gateway: PageGateway, method: str, query: Json | None = None, **claims: object
) -> httpx.Response:
    return await gateway.served.http.request(
        method, LOGINS, params=query, headers=bearer(gateway.token(**claims))
    )


async def owners(gateway: PageGateway, query: Json | None = None, **claims: object) -> list[Json]:
    answer = await send(gateway, "GET", query, **claims)
    assert answer.status_code == 200, answer.text
    logins: list[Json] = answer.json()["logins"]
    assert all(it.pop("signed_in_at") for it in logins)
    return logins


async def sign_in(gateway: PageGateway, **claims: str) -> None:
    answer = await gateway.post_login(claims=claims)
    assert answer.status_code == 200, answer.text
    assert 0 < answer.json()["expires_in_s"] <= 600
    gateway.sign_in_as(**claims)
    closing = await gateway.sign_in(gateway.browser(), answer.json()["url"])
    assert "<h1>Connected" in closing.text


async def test_users_see_and_end_only_their_own_logins() -> None:
    async with page_gateway() as gateway:
        await sign_in(gateway)
        await sign_in(gateway, sub="bob")
        mine = {"server_id": "s", "for": "user", "tenant_id": "acme", "user_id": "ann"}
        assert await owners(gateway) == [mine]
        assert await owners(gateway, {"for": "user", "user_id": "ann"}) == [mine]
        for query in ({"user_id": "bob"}, {"for": "tenant"}, {"tenant_id": "globex"}):
            assert (await send(gateway, "GET", query)).status_code == 403
        other = {"server_id": "s", "for": "user", "tenant_id": "acme", "user_id": "bob"}
        assert (await send(gateway, "DELETE", other)).status_code == 403
        ended = [(await send(gateway, "DELETE", {"server_id": "s"})).json() for _ in range(2)]
        assert ended == [{"removed": True}, {"removed": False}]
        assert await owners(gateway) == []
        assert len(await owners(gateway, sub="bob")) == 1
        assert len(gateway.issuer.revoked) == 2  # the refresh token, and the access token


async def test_an_operator_can_see_and_end_logins_of_other_users() -> None:
    async with page_gateway() as gateway:
        await sign_in(gateway)
        his: Json = {"server_id": "s", "for": "user", "tenant_id": "acme", "user_id": "ann"}
        assert await owners(gateway, {"tenant_id": "acme"}, **OPERATOR) == [his]
        assert await owners(gateway, **OPERATOR) == []  # of the deployment
        assert (await send(gateway, "DELETE", his, **OPERATOR)).json() == {"removed": True}


async def test_an_operator_of_one_tenant_cannot_see_other_logins() -> None:
    async with page_gateway() as gateway:
        bound = {**OPERATOR, "tenant_id": "acme"}
        assert (await send(gateway, "GET", {"tenant_id": "acme"}, **bound)).status_code == 200
        for query in ({"tenant_id": "globex"}, {"for": "deployment"}):
            assert (await send(gateway, "GET", query, **bound)).status_code == 403


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"server_id": "s", "for": "user", "tenant_id": "acme"}, "user_id"),
        ({"server_id": "s", "for": "tenant"}, "tenant_id"),
        ({"for": "tenant"}, "server_id"),
        ({"server_id": "s", "more": "x"}, "more"),
    ],
)
async def test_a_login_needs_all_its_fields(query: Json, field: str) -> None:
    async with page_gateway() as gateway:
        answer = await send(gateway, "DELETE", query, **OPERATOR)
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == field


async def test_only_a_server_with_user_logins_has_an_address() -> None:
    async with page_gateway() as gateway:
        answer = await gateway.post_login(server_id="unknown")
        operator = await gateway.post_login(claims=OPERATOR)
    assert answer.status_code == 422
    assert operator.json()["error"]["code"] == "IDENTITY_REQUIRED"


async def test_without_jwts_the_error_names_the_command() -> None:
    async with running() as service:
        answers = [
            (await service.http.get(LOGINS)).json(),
            (await service.http.post(LOGINS, json={"server_id": "s"})).json(),
            (await service.http.delete(LOGINS, params={"server_id": "s"})).json(),
        ]
    assert [it["error"]["code"] for it in answers] == ["FORBIDDEN"] * 3
    commands = ("logins", "login", "logout")
    for it, command in zip(answers, commands, strict=True):
        assert f"mcp-tools-proxy {command}" in it["error"]["message"]


async def test_without_pages_the_address_is_unavailable() -> None:
    async with page_gateway(signin_client_id=None) as gateway:
        answer = await gateway.post_login()
        call = await gateway.call()
        assert (await gateway.served.http.get("/oauth/done")).status_code == 404
    assert answer.status_code == 403
    assert "url" not in call["error"]["details"]
