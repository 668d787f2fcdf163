"""Tokens without a user's sign-in: client credentials, token exchange, identity assertions."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.oauth.session_tokens import now
from tests.downstream.caller_gateway import TOOLS, serving_entry, user
from tests.downstream.oauth_calls import (
    call,
    code,
    jwt_of,
    jwt_settings,
    last_reason,
    sent_token,
)
from tests.support.bounds import until
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.oauth_issuer import ID_JAG, RESOURCE_METADATA, Issuer, protect, running_issuer
from tests.support.service import EXECUTE, SERVERS, eventually
from tests.support.tokens import bearer
from tests.support.web_app import serving_app


@asynccontextmanager
async def protected(
    transport: str = "http", *, era: str = "modern", scope: str | None = None
) -> AsyncIterator[tuple[RawServer, Issuer, list[str | None]]]:
    """Run a server that accepts an issuer's tokens; the list has the tokens it received."""
    async with (
        running_issuer() as issuer,
        running_raw(transport, era=era, only=TOOLS) as server,
    ):
        yield server, issuer, protect(server, issuer, scope=scope)


def client_credentials(issuer: Issuer, **more: object) -> Json:
    return {
        "type": "oauth",
        "grant": "client_credentials",
        "clientId": "proxy",
        "clientSecret": "s3cret",
        "authorizationServer": issuer.url,
        **more,
    }


def exchange(**more: object) -> Json:
    client = {"clientId": "proxy", "clientSecret": "s3cret"}
    return {
        "type": "oauth",
        "grant": "token_exchange",
        "for": "user",
        **client,
        "discovery": {"grant": "client_credentials", **client},
        **more,
    }


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_deployments_token_is_sent_with_every_request(era: str) -> None:
    async with protected(era=era) as (server, issuer, sent):
        auth = client_credentials(issuer, scopes=["read", "write"])
        async with serving_entry({**server.entry, "auth": auth}) as service:
            answers = [await call(service) for _ in range(3)]
        assert {sent_token(it) for it in answers} == {"token-1"}
        assert set(sent) == {"Bearer token-1"}
        assert issuer.token_requests == [
            {
                "grant_type": "client_credentials",
                "resource": server.url,
                "scope": "read write",
            }
        ]


async def test_an_issuer_does_not_receive_the_query_of_a_servers_url() -> None:
    async with protected() as (server, issuer, _):
        refuse = server.instead
        assert refuse is not None

        def without_metadata(request: web.Request) -> web.Response | None:
            found = request.path.startswith(RESOURCE_METADATA)
            return web.Response(status=404) if found else refuse(request)

        server.instead = without_metadata
        entry = {**server.entry, "url": f"{server.url}?key=of-the-server"}
        async with serving_entry({**entry, "auth": client_credentials(issuer)}) as service:
            assert sent_token(await call(service)) == "token-1"
        assert [it["resource"] for it in issuer.token_requests] == [server.url]


@pytest.mark.parametrize("transport", ["sse", "ws"])
async def test_older_transports_send_the_token_as_well(transport: str) -> None:
    async with protected(transport, era="legacy") as (server, issuer, sent):
        auth = client_credentials(issuer)
        async with serving_entry({**server.entry, "auth": auth}) as service:
            answer = await call(service)
        assert code(answer) == "OK", answer
        assert set(sent) == {"Bearer token-1"}


async def test_each_tenant_uses_a_separate_client(tmp_path: Path) -> None:
    for tenant in ("acme", "globex"):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "id").write_text(f"of-{tenant}\n")
        (tmp_path / tenant / "secret").write_text(f"secret of {tenant}: %&\n")
    async with protected() as (server, issuer, sent):
        issuer.secrets = {f"of-{it}": f"secret of {it}: %&" for it in ("acme", "globex")}
        issuer.secrets["found"] = "it"
        auth = client_credentials(
            issuer,
            clientId="${secret:${caller.tenant_id}/id}",
            clientSecret="${secret:${caller.tenant_id}/secret}",
            discovery={"grant": "client_credentials", "clientId": "found", "clientSecret": "it"},
            **{"for": "tenant"},
        )
        entry = {**server.entry, "auth": auth, "isolation": "tenant"}
        async with serving_entry(entry, secrets_dir=tmp_path) as service:
            found = {
                tenant: issuer.find(f"Bearer {sent_token(await call(service, user(tenant)))}")
                for tenant in ("acme", "globex")
            }
            missing = await call(service, user("initech"))
    assert {tenant: it.client_id for tenant, it in found.items() if it} == {
        "acme": "of-acme",
        "globex": "of-globex",
    }
    assert code(missing) == "CREDENTIALS_MISSING"
    assert sent[0] is None  # the first discovery has no token to send


async def test_an_exchanged_token_does_not_outlive_its_jwt() -> None:
    async with protected() as (server, issuer, _):
        auth = exchange(scopes=["read"])
        issuer.expires_in = None
        entry = {**server.entry, "auth": auth, "isolation": "user"}
        async with serving_entry(entry, **jwt_settings(issuer)) as service:
            ann, bob = jwt_of(issuer), jwt_of(issuer, sub="bob")
            tokens = [sent_token(await call(service, token=it)) for it in (ann, bob, ann, bob)]
            assert tokens[:2] == tokens[2:]
            exchanged = [issuer.find(f"Bearer {token}") for token in tokens[:2]]
            assert [it and it.form for it in exchanged] == [
                {
                    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                    "subject_token": jwt,
                    "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
                    "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
                    "resource": server.url,
                    "scope": "read",
                }
                for jwt in (ann, bob)
            ]


async def test_a_jwt_is_exchanged_with_the_configured_token_type() -> None:
    async with protected() as (server, issuer, _):
        auth = exchange(subjectTokenType="id_token")
        entry = {**server.entry, "auth": auth, "isolation": "user"}
        async with serving_entry(entry, **jwt_settings(issuer)) as service:
            assert code(await call(service, token=jwt_of(issuer))) == "OK"
    (sent,) = [it for it in issuer.token_requests if "subject_token" in it]
    assert sent["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token"
    assert sent["requested_token_type"] == "urn:ietf:params:oauth:token-type:access_token"


async def test_an_unverified_user_gets_no_tokens() -> None:
    async with protected() as (server, issuer, _):
        entry = {**server.entry, "auth": exchange(), "isolation": "user"}
        async with serving_entry(entry, **jwt_settings(issuer)) as service:
            assert code(await call(service, token=jwt_of(issuer))) == "OK"
            body = {"tool_name": "s:headers", "arguments": {}, **user("acme", "ann")}
            unproven = bearer(jwt_of(issuer, sub=...))
            response = await service.http.post(EXECUTE, json=body, headers=unproven)
    assert code(response.json()) == "IDENTITY_REQUIRED"


async def test_an_exchanged_token_expires_with_its_jwt() -> None:
    async with protected() as (server, issuer, _):
        auth = exchange()
        entry = {**server.entry, "auth": auth, "isolation": "user"}
        async with serving_entry(entry, **jwt_settings(issuer)) as service:
            first, second = (jwt_of(issuer, exp=int(now()) + left) for left in (4, 600))
            assert code(await call(service, token=first)) == "OK"

            async def is_over() -> bool:
                return code(await call(service, token=first)) == "UNAUTHENTICATED"

            await eventually(is_over)
            before = len(issuer.token_requests)
            assert code(await call(service, token=second)) == "OK"
            assert len(issuer.token_requests) == before + 1
            assert issuer.token_requests[-1]["subject_token"] == second


async def test_an_assertion_is_sent_to_its_audience_but_the_jwt_is_not() -> None:
    async with protected() as (server, issuer, _), running_issuer() as idp:
        idp.secrets = {"at-idp": "other"}
        auth = {
            "type": "oauth",
            "grant": "id_jag",
            "for": "user",
            "clientId": "proxy",
            "clientSecret": "s3cret",
            "authorizationServer": issuer.url,
            "idp": {"clientId": "at-idp", "clientSecret": "other"},
            "discovery": {
                "grant": "client_credentials",
                "clientId": "proxy",
                "clientSecret": "s3cret",
            },
        }
        entry = {**server.entry, "auth": auth, "isolation": "user"}
        async with serving_entry(entry, **jwt_settings(idp)) as service:
            token = jwt_of(idp)
            assert code(await call(service, token=token)) == "OK"
    (assertion,) = idp.token_requests
    assert assertion["requested_token_type"] == ID_JAG
    assert (assertion["audience"], assertion["resource"]) == (issuer.url, server.url)
    (redeemed,) = [it for it in issuer.token_requests if "assertion" in it]
    assert redeemed["assertion"] == idp.issued[0].token
    assert token not in str(issuer.requests)


async def test_a_refused_token_is_renewed_once_and_the_call_repeated() -> None:
    async with protected() as (server, issuer, _):
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            assert sent_token(await call(service)) == "token-1"
            issuer.refused.add("token-1")
            assert sent_token(await call(service)) == "token-2"


async def test_refusing_the_renewed_token_is_a_final_error() -> None:
    async with protected() as (server, issuer, sent):
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            assert code(await call(service)) == "OK"
            issuer.refused.update(f"token-{number}" for number in range(100))
            before = len(sent)
            answer = await call(service)
            assert (code(answer), len(sent) - before) == ("CREDENTIALS_INSUFFICIENT", 2)
            assert "retryable" not in answer["error"]


class SessionsOfTokens:
    """A server with sessions; it answers 401 to unknown sessions with any token."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.challenges = True
        self.sessions: set[str] = set()
        self.messages: list[tuple[str, str, str]] = []
        """The method, session and token of each message."""

    def refused(self) -> web.Response:
        headers = {"WWW-Authenticate": "Bearer"} if self.challenges else {}
        return web.Response(status=401, headers=headers)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        session, method = request.headers.get("Mcp-Session-Id", ""), message.get("method", "")
        authorization = request.headers.get("Authorization", "")
        self.messages.append((method, session, authorization.removeprefix("Bearer ")))
        if method == "server/discover":
            return web.Response(status=405)
        if self.issuer.find(authorization) is None:
            return self.refused()
        result: Json = {"content": []}
        if method == "initialize":
            session = f"session-{len(self.messages)}"
            self.sessions.add(session)
            about: Json = {
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": ""},
            }
            result = {"protocolVersion": "2025-11-25", **about}
        elif session not in self.sessions:
            return self.refused()
        elif "id" not in message:
            return web.Response(status=202)
        elif method == "tools/list":
            result = {"tools": [{"name": "headers", "inputSchema": {"type": "object"}}]}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return web.json_response(answer, headers={"Mcp-Session-Id": session})


@asynccontextmanager
async def serving_sessions() -> AsyncIterator[tuple[SessionsOfTokens, Json]]:
    async with running_issuer() as issuer:
        server = SessionsOfTokens(issuer)
        app = web.Application()
        app.router.add_post("/mcp", server.serve)
        async with serving_app(app) as url:
            auth = client_credentials(issuer)
            entry = {"transport": "streamable-http", "url": f"{url}/mcp", "auth": auth}
            yield server, entry


@pytest.mark.parametrize("challenges", [True, False])
async def test_a_lost_session_answered_with_401_restarts_after_one_new_token(
    challenges: bool,
) -> None:
    async with serving_sessions() as (server, entry), serving_entry(entry) as service:
        server.challenges = challenges
        assert code(await call(service)) == "OK"
        server.sessions.clear()
        sent = len(server.messages)
        await call(service)
        await until(lambda: server.sessions, "a new session begins")
        assert code(await call(service)) == "OK"
        sent_after = server.messages[sent:]
        assert [it[0] for it in sent_after].count("initialize") == 1
        tokens = [it[2] for it in sent_after if it[0] == "tools/call"][:2]
        assert tokens == (["token-1", "token-2"] if challenges else ["token-1", "token-1"])
        assert len(server.issuer.token_requests) <= 3


async def test_a_server_that_refuses_every_token_causes_no_loop() -> None:
    async with serving_sessions() as (server, entry), serving_entry(entry) as service:
        assert code(await call(service)) == "OK"
        server.issuer.refused.update(f"token-{number}" for number in range(100))
        sent = len(server.messages)
        answers = [await call(service) for _ in range(3)]
        assert "OK" not in [code(answer) for answer in answers]
        assert len(server.messages) - sent <= 24
        assert len(server.issuer.token_requests) <= 12


async def test_operators_are_advised_to_configure_the_discovery_of_an_exchange() -> None:
    async with protected() as (server, issuer, _):
        entry = {**server.entry, "isolation": "user", "auth": exchange(discovery=None)}
        async with serving_entry(entry, **jwt_settings(issuer)) as service:
            shown = (await service.http.get(SERVERS, headers=bearer(jwt_of(issuer)))).json()
            answer = await call(service, token=jwt_of(issuer))
            reason = last_reason(service)
    assert "last_error" not in shown["servers"][0]
    assert answer["error"]["message"].endswith("first, or to change its entry; tell the user")
    assert str(reason).endswith('set "discovery" in "auth" of the entry')


@pytest.mark.parametrize("scope", ["write", "write admin"])
async def test_a_scope_is_requested_once_more_within_those_of_the_entry(scope: str) -> None:
    async with protected() as (server, issuer, _sent):
        entry = {**server.entry, "auth": client_credentials(issuer, scopes=["read", "write"])}
        async with serving_entry(entry) as service:
            assert code(await call(service)) == "OK"
            before = len(issuer.token_requests)
            challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
            server.instead = lambda _: web.Response(
                status=403, headers={"WWW-Authenticate": challenge}
            )
            answer = await call(service)
    assert code(answer) == "CREDENTIALS_INSUFFICIENT"
    assert len(issuer.token_requests) - before == (1 if scope == "write" else 0)


async def test_an_unavailable_issuer_is_a_retryable_error() -> None:
    async with protected() as (server, issuer, _):
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            assert code(await call(service)) == "OK"
            issuer.refused.add("token-1")
            issuer.instead = lambda _: web.Response(status=503)
            answer = await call(service)
            assert code(answer) == "SERVER_UNAVAILABLE"
            assert answer["error"]["retryable"] is True
            reason = last_reason(service)
            issuer.instead = lambda _: None
            assert code(await call(service)) == "OK"
    assert reason == f"{issuer.url} answered with HTTP status 503"
    assert issuer.url not in str(answer)


async def test_wrong_credentials_are_reported_without_their_values() -> None:
    async with protected() as (server, issuer, _):
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            assert code(await call(service)) == "OK"
            issuer.refused.add("token-1")
            issuer.secrets["proxy"] = "changed"
            answer = await call(service)
    assert code(answer) == "CREDENTIALS_INSUFFICIENT"
    assert "s3cret" not in str(answer)
    assert issuer.url not in str(answer)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"resource": "http://127.0.0.1:1/mcp", "issuers": ["ISSUER"]}, "does not match its url"),
        ({"resource": "SERVER-and-more", "issuers": ["ISSUER"]}, "does not match its url"),
        ({"resource": "SERVER/below", "issuers": ["ISSUER"]}, "does not match its url"),
        ({"resource": "SERVER", "issuers": ["http://127.0.0.1:1"]}, "not among the issuers"),
    ],
    ids=["another origin", "no whole segment", "below", "another issuer"],
)
async def test_metadata_of_another_issuer_or_origin_are_not_used(
    metadata: Json, problem: str
) -> None:
    async with protected() as (server, issuer, _):
        text = json.dumps(metadata).replace("SERVER", server.url).replace("ISSUER", issuer.url)
        text = text.replace('"issuers"', '"authorization_servers"')
        server.instead = lambda request: (
            web.Response(text=text, content_type="application/json")
            if request.path.startswith("/.well-known")
            else web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        )
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            shown = (await service.http.get(SERVERS)).json()["servers"][0]
    assert problem in shown["last_error"]
    assert "http://127.0.0.1:1" in shown["last_error"] or server.url in shown["last_error"]
    assert issuer.token_requests == []


async def test_parallel_calls_share_one_token_request() -> None:
    async with protected() as (server, issuer, _):
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            assert code(await call(service)) == "OK"
            issuer.refused.add("token-1")
            answers = await asyncio.gather(*(call(service) for _ in range(20)))
    assert {sent_token(it) for it in answers} == {"token-2"}
    assert len(issuer.token_requests) == 2


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_calls_token_is_looked_up_once(transport: str) -> None:
    era = "modern" if transport == "http" else "legacy"
    async with protected(transport, era=era) as (server, issuer, _):
        issuer.expires_in = 0  # each lookup is a request to the issuer
        entry = {**server.entry, "auth": client_credentials(issuer)}
        async with serving_entry(entry) as service:
            assert code(await call(service)) == "OK"
            before = len(issuer.token_requests)
            assert code(await call(service)) == "OK"
            assert len(issuer.token_requests) == before + 1
