import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from mcp_tools_proxy.app.open_sign_in import open_sign_in
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.downstream.oauth.discovery import find_issuer
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused, OAuthWeb
from mcp_tools_proxy.settings.settings import Settings
from tests.downstream.caller_gateway import TOOLS, serving_entry
from tests.downstream.oauth_calls import (
    ANN,
    call,
    code,
    jwt_of,
    jwt_settings,
    sent_token,
)
from tests.downstream.oauth_sign_ins import (
    SETTINGS,
    ready,
    sign_in,
    sign_out,
    signing_in,
    state,
)
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.oauth_issuer import Issuer, protect, running_issuer
from tests.support.service import CONFIG_DIR, EXECUTE, SERVERS, Service, eventually
from tests.support.tokens import bearer


async def test_a_server_is_usable_after_a_sign_in() -> None:
    async with signing_in() as (service, server, issuer):
        assert await state(service) == "login_required"
        assert issuer.token_requests == []
        assert "an operator has to sign in" in (await call(service))["error"]["message"]
        login = await sign_in()
        await ready(service)
        assert sent_token(await call(service)) == login.access_token
    request = issuer.token_requests[0]
    assert (request["grant_type"], request["resource"]) == ("authorization_code", server.url)
    (registered,) = issuer.registered
    assert registered["application_type"] == "native"


async def test_explaining_a_call_reports_the_missing_sign_in() -> None:
    explained = Call(name="s:headers", caller=Caller(tenant_id="acme", user_id="ann"), trace_id="t")
    async with signing_in() as (service, _, issuer):

        async def decision() -> str:
            refusal = (await service.gateway.explainer.explain(explained)).refusal
            return "OK" if refusal is None else refusal.verdict

        assert await decision() == code(await call(service)) == "SERVER_UNAVAILABLE"
        assert issuer.requests == []
        await sign_in()
        await ready(service)
        assert await decision() == code(await call(service)) == "OK"
        assert await sign_out()
        assert await decision() == "LOGIN_REQUIRED"


async def test_a_login_made_by_the_command_is_recorded_when_the_gateway_notices_it() -> None:
    async with signing_in() as (service, _, _):
        await sign_in()
        await ready(service)
        assert code(await call(service)) == "OK"
        assert await sign_out()
        changes = [it for it in service.gateway.audit.recent() if it["event"] == "login.changed"]
    assert [it["payload"] for it in changes] == [
        {"code": "OK", "change": "signed_in", "server_id": "s", "login_for": "deployment"}
    ]


async def test_a_login_is_renewed_with_its_refresh_token_once_for_all_calls() -> None:
    async with signing_in() as (service, _, issuer):
        await sign_in()
        await ready(service)
        first = sent_token(await call(service))
        issuer.refused.add(first)
        answers = await asyncio.gather(*(call(service) for _ in range(10)))
        (second,) = {sent_token(it) for it in answers}
    assert second != first
    refreshed = [it for it in issuer.token_requests if it["grant_type"] == "refresh_token"]
    assert [it["refresh_token"] for it in refreshed] == [f"refresh-{first}"]


async def test_a_login_revoked_at_its_issuer_requires_a_new_sign_in() -> None:
    async with signing_in() as (service, _, issuer):
        first = await sign_in()
        await ready(service)
        issuer.refused.add(first.access_token)
        issuer.refreshes.clear()
        answer = await call(service)
        assert code(answer) == "LOGIN_REQUIRED"
        assert answer["error"]["details"]["server_id"] == "s"
        second = await sign_in()
        assert sent_token(await call(service)) == second.access_token


async def test_a_users_login_is_found_only_with_a_jwt() -> None:
    async with running_issuer() as issuer, running_raw(only=TOOLS) as server:
        sent = protect(server, issuer)
        discovery = {"grant": "client_credentials", "clientId": "proxy", "clientSecret": "s3cret"}
        auth = {"type": "oauth", "for": "user", "authorizationServer": issuer.url}
        entry = {**server.entry, "isolation": "user", "auth": {**auth, "discovery": discovery}}
        settings = {**SETTINGS, **jwt_settings(issuer)}
        async with serving_entry(entry, **settings) as service:
            login = await sign_in(tenant="acme", user="ann", more=jwt_settings(issuer))
            header = f"Bearer {login.access_token}"
            body = {"tool_name": "s:headers", "arguments": {}, **ANN}
            named = await service.http.post(
                EXECUTE, json=body, headers=bearer(jwt_of(issuer, sub=...))
            )
            assert code(named.json()) == "IDENTITY_REQUIRED"
            (shown,) = (await service.http.get(SERVERS, headers=bearer(jwt_of(issuer)))).json()[
                "servers"
            ]
            assert shown["sessions"]["open"] == 0
            assert code(await call(service, token=jwt_of(issuer, sub="bob"))) == "LOGIN_REQUIRED"
            assert header not in sent
            answer = await call(service, token=jwt_of(issuer))
            assert sent_token(answer) == login.access_token


async def test_a_refresh_token_with_a_lost_answer_is_never_sent_again() -> None:
    async with signing_in() as (service, _, issuer):
        first = await sign_in()
        await ready(service)
        issuer.refused.add(first.access_token)

        def lose(request: web.Request) -> web.Response | None:
            if request.path == "/token" and request.transport is not None:
                request.transport.abort()
            return None

        issuer.instead = lose
        assert code(await call(service)) == "SERVER_UNAVAILABLE"
        issuer.instead = lambda _: None
        assert code(await call(service)) == "LOGIN_REQUIRED"
    sent = [it["refresh_token"] for it in issuer.token_requests if "refresh_token" in it]
    assert len(sent) == len(set(sent)) == 1


@pytest.mark.parametrize("scopes", [None, ["read", "write"]])
@pytest.mark.parametrize("named", [True, False])
async def test_a_wider_login_is_requested_once_for_each_scope(
    scopes: list[str] | None, named: bool
) -> None:
    """The sign-in requests the scopes demanded by the server, even if no entry names them."""
    auth: Json = {} if scopes is None else {"scopes": scopes}
    async with signing_in(scope="read", **auth) as (service, server, issuer):
        first = await sign_in()
        assert first.scopes == ("read",)
        await ready(service)
        protected = server.instead

        def wants_write(request: web.Request) -> web.Response | None:
            issued = issuer.find(request.headers.get("Authorization"))
            if issued is not None and "write" not in issued.form.get("scope", ""):
                challenge = 'Bearer error="insufficient_scope", scope="write"'
                return web.Response(status=403, headers={"WWW-Authenticate": challenge})
            return protected(request)

        server.instead = wants_write
        answer = await call(service)
        assert code(answer) == "LOGIN_REQUIRED"
        wanted = answer["error"]["details"]["scopes"]
        assert wanted == ["read", "write"]
        second = await sign_in(*(wanted if named else ()))
        assert second.scopes == ("read", "write")

        async def works() -> bool:
            return code(await call(service)) == "OK"

        await eventually(works)


async def test_a_sign_in_reports_scopes_that_the_entry_does_not_allow() -> None:
    async with signing_in(scope="read", scopes=["read"]) as (service, server, _):
        await sign_in()
        await ready(service)
        protected = server.instead

        def wants_admin(request: web.Request) -> web.Response | None:
            if request.headers.get("Authorization") is None:
                return protected(request)
            challenge = 'Bearer error="insufficient_scope", scope="read admin"'
            return web.Response(status=403, headers={"WWW-Authenticate": challenge})

        server.instead = wants_admin
        with capture_logs() as lines:
            assert code(await call(service)) == "CREDENTIALS_INSUFFICIENT"
        reasons = [line["reason"] for line in lines if "reason" in line]
        assert any(it.endswith("that the entry does not allow: admin") for it in reasons), reasons
        settings = Settings.model_validate(SETTINGS)
        async with open_sign_in(settings, CONFIG_DIR, "s", tenant_id=None, user_id=None) as opened:
            assert await opened.sign_in.beyond_entry(opened.owner) == ("admin",)
        assert (await sign_in()).scopes == ("read",)


async def test_an_entry_for_another_address_does_not_find_the_login() -> None:
    async with signing_in() as (service, server, issuer):
        first = await sign_in()
        await ready(service)
        async with running_raw(only=TOOLS) as other:
            protect(other, issuer)
            entry = {**other.entry, "auth": {"type": "oauth"}}
            async with serving_entry(entry, **SETTINGS) as moved:

                async def is_required() -> bool:
                    return await state(moved) == "login_required"

                await eventually(is_required)
    assert set(issuer.revoked) == {first.access_token, f"refresh-{first.access_token}"}
    assert server.url != other.url
    assert service is not moved


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "does not name its issuer"),
        ({"state": "another"}, "a different sign-in"),
        ({"error": "access_denied", "code": None}, "access_denied"),
        ({"code": None}, "no code"),
        ({"code": "stolen"}, "invalid_grant"),
    ],
)
async def test_an_untrustworthy_answer_is_refused(answer: Json, problem: str) -> None:
    async with signing_in() as (service, _, issuer):
        issuer.answer = answer
        with pytest.raises(OAuthRefused, match=problem):
            await sign_in()
        assert await state(service) == "login_required"


async def test_an_issuer_without_pkce_is_not_used() -> None:
    async with signing_in() as (_, _, issuer):
        issuer.metadata = {"code_challenge_methods_supported": None}
        with pytest.raises(OAuthRefused, match='"pkce": "S256"'):
            await sign_in()


@pytest.mark.parametrize("announced", [None, [], ["plain"]])
async def test_an_operator_can_state_that_an_issuer_supports_pkce(
    announced: list[str] | None,
) -> None:
    async with signing_in(pkce="S256") as (service, _, issuer):
        issuer.metadata = {"code_challenge_methods_supported": announced}
        await sign_in()  # the issuer checks the verifier against the challenge
        await ready(service)


@pytest.mark.parametrize("in_entry", ["", "/", None])
@pytest.mark.parametrize("in_metadata", ["", "/"])
async def test_an_issuer_without_a_path_is_the_same_with_and_without_a_slash(
    in_entry: str | None, in_metadata: str
) -> None:
    async with signing_in_at(in_entry) as (service, issuer):
        issuer.metadata = {"issuer": f"{issuer.url}{in_metadata}"}
        issuer.answer = {"iss": f"{issuer.url}{in_metadata}"}
        await sign_in()
        await ready(service)
        issuer.metadata = {}  # the issuer changes the spelling of its name: the login is kept
        assert sent_token(await call(service))


@asynccontextmanager
async def signing_in_at(slash: str | None) -> AsyncIterator[tuple[Service, Issuer]]:
    """Serve a gateway whose entry names the issuer with or without a slash; None omits it."""
    async with running_issuer() as issuer, running_raw(only=TOOLS) as server:
        protect(server, issuer)
        named = {} if slash is None else {"authorizationServer": f"{issuer.url}{slash}"}
        entry = {**server.entry, "auth": {"type": "oauth", **named}}
        async with serving_entry(entry, **SETTINGS) as service:
            yield service, issuer


@pytest.mark.parametrize(
    ("named", "published"), [("/a", "/a/"), ("/a/", "/a"), ("", "/a"), ("/", "//"), ("", "?")]
)
async def test_an_issuer_with_a_path_differs_from_one_with_a_trailing_slash(
    named: str, published: str
) -> None:
    async with running_issuer() as issuer, opened_web() as requests:
        issuer.metadata = {"issuer": f"{issuer.url}{published}"}
        issuer.instead = lambda request: (
            web.json_response(
                {
                    "issuer": f"{issuer.url}{published}",
                    "authorization_endpoint": f"{issuer.url}/authorize",
                    "token_endpoint": f"{issuer.url}/token",
                }
            )
            if ".well-known" in request.path
            else None
        )
        with pytest.raises(OAuthRefused, match="names another issuer"):
            await find_issuer(
                requests,
                f"{issuer.url}{named}",
                server=URL(issuer.url),
                configured=frozenset({URL(issuer.url).origin()}),
            )


@asynccontextmanager
async def opened_web() -> AsyncIterator[OAuthWeb]:
    requests = OAuthWeb()
    try:
        yield requests
    finally:
        await requests.close()


async def test_an_issuer_without_browser_sign_in_is_reported_with_the_alternatives() -> None:
    async with signing_in() as (_, _, issuer):
        issuer.metadata = {"authorization_endpoint": None}
        with pytest.raises(OAuthRefused, match="login --device"):
            await sign_in()


async def test_tokens_are_stored_encrypted() -> None:
    async with signing_in() as (service, _, issuer):
        login = await sign_in()
        await ready(service)
        kept = await asyncio.to_thread(_everything_in, Path("logins"))
    secrets = (login.access_token, login.refresh_token, *issuer.secrets.values())
    assert kept
    assert [it for it in secrets if it is None or it.encode() in kept] == []


def _everything_in(folder: Path) -> bytes:
    return b"".join(it.read_bytes() for it in folder.rglob("*") if it.is_file())
