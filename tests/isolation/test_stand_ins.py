"""When operators act for a user, servers receive none of the user's data, logins or sessions."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.isolation.witness import KINDS, config_of, server_of
from tests.login_pages.page_gateway import PageGateway, code, page_gateway
from tests.support.configuration import Config, Json, make_agent
from tests.support.key_file import write_key
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.oauth_issuer import Issuer, protect
from tests.support.service import EXECUTE, SERVERS, Service, running
from tests.support.tokens import bearer

TRY = "/internal/mcp/try"
ADMIN = "correct-horse-battery"
ANN = {"tenant_id": "acme", "user_id": "ann"}
CALL = {"tool_name": "s:echo", "user": {**ANN, "roles": ["audit"]}, "agent": "helper"}

OF_HTTP: Mapping[str, Json] = {
    "tenant": {"headers": {"X-Who": "${caller.tenant_id}"}},
    "user": {"headers": {"X-Who": "${caller.user_id}"}, "isolation": "user"},
    "roles": {"headers": {"X-Who": "${caller.roles}"}, "isolation": "shared"},
    "agent": {"headers": {"X-Who": "${caller.agent}"}},
    "secret": {"headers": {"X-Key": "${secret:tickets/${caller.tenant_id}}"}},
    "forward": {"forward": ["tenant_id", "user_id"]},
    "forward roles": {"forward": ["roles"]},
    "assertion": {"assertion": {"audience": "tickets"}},
    "bind": {"bind": {"text": "${caller.user_id}"}},
}
DISCOVERY = {"discoveryCaller": {"tenant_id": "globex"}}
OF_STDIO: Mapping[str, Json] = {
    "env": {"env": {"CALLER_WHO": "${caller.tenant_id}"}},
    "secret": {"env": {"CALLER_KEY": "${secret:tickets/${caller.tenant_id}}"}},
    "args": {"args": ["--journal", "${caller.tenant_id}"], **DISCOVERY},
    "cwd": {"cwd": "secrets/${caller.tenant_id}", **DISCOVERY},
}


@pytest.fixture
def settings() -> dict[str, Any]:
    """Return the settings of a gateway that could pass all of ann's data to servers."""
    for name in ("tickets/acme", "plain", "acme/unused", "globex/unused"):
        secret = Path("secrets", name)
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text(f"k-{secret.name}")
    write_key(Path("keys.pem"))
    return {
        "admin_token": ADMIN,
        "secrets_dir": Path("secrets"),
        "signing_key_file": Path("keys.pem"),
        "public_url": "https://gateway.example",
        "require_agent": False,
    }


def one_server(entry: Json) -> Config:
    return replace(config_of({"s": entry}, "echo"), agents=[make_agent("helper")])


async def attempt(service: Service, **more: Any) -> Json:
    """Try a tool as ann, and return the envelope."""
    answer = await service.http.post(TRY, json={**CALL, **more}, headers=bearer(ADMIN))
    envelope: Json = answer.json()
    return envelope


async def call(service: Service, **more: Any) -> Json:
    envelope: Json = (await service.http.post(EXECUTE, json={**CALL, **more})).json()
    return envelope


def check_refusal(envelope: Json, wanted: str) -> None:
    """Check that the operator gets the reason, and the advice that the user must make the call."""
    error = envelope["error"]
    assert error["code"] == wanted, envelope
    assert "an operator acts for the user" in error["message"]
    assert error["message"].endswith("the user has to make this call")
    assert "url" not in error.get("details", {})


async def sessions_of(service: Service) -> int:
    """Return the number of open caller sessions."""
    (server,) = (await service.get(SERVERS))["servers"]
    return int(server.get("sessions", {"open": 0})["open"])


@pytest.mark.parametrize("way", OF_HTTP)
async def test_a_server_that_needs_the_users_data_is_refused_and_sent_nothing(
    way: str, settings: dict[str, Any]
) -> None:
    sent: list[str] = []

    def seen(request: web.Request) -> None:
        sent.append(request.path)

    async with running_raw(only=("witness", "echo")) as server:
        entry = {"isolation": "tenant", **server.entry, **OF_HTTP[way]}
        async with running(config=one_server(entry), **settings) as service:
            server.instead = seen
            check_refusal(await attempt(service), "CREDENTIALS_MISSING")
            assert (sent, await sessions_of(service)) == ([], 0)
            assert code(await call(service)) == "OK"
            assert server.script.calls["echo"] == 1


@pytest.mark.parametrize("way", OF_STDIO)
async def test_a_process_without_its_required_values_is_not_started(
    way: str, settings: dict[str, Any]
) -> None:
    own = raw_entry(only=["witness", "echo"])
    more = OF_STDIO[way]
    entry = {
        **own,
        **more,
        "isolation": "tenant",
        "env": {**own["env"], **more.get("env", {})},
        "args": [*own["args"], *more.get("args", [])],
    }
    async with running(config=one_server(entry), **settings) as service:
        check_refusal(await attempt(service), "CREDENTIALS_MISSING")
        assert await sessions_of(service) == 0
        assert code(await call(service)) == "OK"
        assert await sessions_of(service) == 1


async def test_data_common_to_all_callers_is_sent(settings: dict[str, Any]) -> None:
    async with running_raw(only=("witness", "echo")) as server:
        entry = {"isolation": "user", "headers": {"X-Key": "${secret:plain}"}, **server.entry}
        async with running(config=one_server(entry), **settings) as service:
            answer = await attempt(service, tool_name="s:witness")
            seen = answer["result"]["structured_content"]
            assert seen["headers"]["x-key"] == "k-plain"
            assert not [it for it in ("acme", "ann", "helper", "audit") if it in str(seen)]


def session_of(envelope: Json) -> str:
    """Return the session of streamable HTTP or SSE, or the connection, or the process."""
    assert envelope["status"] == "ok", envelope
    seen = envelope["result"]["structured_content"]
    headers = seen["headers"]
    return str(headers.get("mcp-session-id") or headers.get(":peer") or seen["process"])


@pytest.mark.parametrize("isolation", ["tenant", "user"])
@pytest.mark.parametrize("kind", [it for it in KINDS if it != "http-modern"])
async def test_a_session_of_the_user_is_neither_shared_nor_ended(
    kind: str, isolation: str, settings: dict[str, Any]
) -> None:
    async with server_of(kind, "echo") as server:
        entry = {**server, "isolation": isolation, "maxSessions": 10}
        async with running(config=one_server(entry), **settings) as service:
            tool = {"tool_name": "s:witness"}
            users = session_of(await call(service, **tool))
            operators = session_of(await attempt(service, **tool))
            assert users != operators
            assert session_of(await call(service, **tool)) == users
            assert session_of(await attempt(service, **tool)) == operators
            assert await sessions_of(service) == 2


def entries_of(of_exchange: RawServer, issuer: Issuer, server: RawServer) -> Json:
    """Return entries by the kind of their token: a tenant's login or client, a user's JWT, none."""
    proxy = {"grant": "client_credentials", "clientId": "proxy", "clientSecret": "s3cret"}
    pages = {"grant": "client_credentials", "clientId": "pages", "clientSecret": "s1gn-in"}
    at_issuer = {"type": "oauth", "authorizationServer": issuer.url}
    of_tenant = {
        f"client{part.title()}": f"${{secret:${{caller.tenant_id}}/{part}}}"
        for part in ("id", "secret")
    }
    of_user = {**pages, "grant": "token_exchange", "discovery": pages}
    return {
        "t": {
            **server.entry,
            "isolation": "tenant",
            "auth": {**at_issuer, "for": "tenant", "discovery": proxy},
        },
        "c": {
            **server.entry,
            "isolation": "tenant",
            "auth": {**at_issuer, **proxy, **of_tenant, "for": "tenant"},
            "discoveryCaller": {"tenant_id": "acme"},
        },
        "x": {
            **of_exchange.entry,
            "isolation": "user",
            "auth": {"type": "oauth", **of_user, "for": "user"},
        },
        "d": {**server.entry, "auth": {**at_issuer, **proxy}},
    }


@asynccontextmanager
async def protected() -> AsyncIterator[PageGateway]:
    """Serve a gateway before servers that require a token; ann is signed in to one of them."""

    def entries(own: Issuer, issuer: Issuer, server: RawServer) -> Json:
        Path("secrets/acme").mkdir(parents=True)
        for part in ("id", "secret"):
            Path("secrets/acme", part).write_text(f"{part} of acme")
        issuer.secrets["id of acme"] = "secret of acme"
        protect(of_exchange, own)
        return entries_of(of_exchange, issuer, server)

    async with (
        running_raw(only=("headers",)) as of_exchange,
        page_gateway(more=entries, secrets_dir=Path("secrets")) as gateway,
    ):
        gateway.sign_in_as()
        await gateway.sign_in(gateway.browser(), await gateway.address())
        await gateway.served.service.discovered()
        yield gateway


async def try_as_ann(gateway: PageGateway, tool: str, **claims: object) -> Json:
    """Try a tool as ann with a JWT that has the right; without ``claims``, with ann's own JWT."""
    token = gateway.token(may=[OperatorRight.RUN.value], **claims)
    answer = await gateway.served.http.post(
        TRY, json={"tool_name": tool, "user": ANN}, headers=bearer(token)
    )
    envelope: Json = answer.json()
    return envelope


@pytest.mark.parametrize("operator", [{"sub": "carla"}, {"sub": ..., "tenant_id": ...}])
async def test_no_login_of_the_user_or_tenant_is_used(operator: Json) -> None:
    async with protected() as gateway:
        for name in "scx":  # ann's own calls carry her tokens
            assert code(await gateway.call(f"{name}:headers")) == "OK"
        before = len(gateway.issuer.requests), len(gateway.own.requests)
        calls = gateway.server.script.calls["headers"]
        for name in "stcx":
            wanted = "LOGIN_REQUIRED" if name in "st" else "CREDENTIALS_MISSING"
            check_refusal(await try_as_ann(gateway, f"{name}:headers", **operator), wanted)
        assert (len(gateway.issuer.requests), len(gateway.own.requests)) == before
        assert gateway.server.script.calls["headers"] == calls
        assert code(await try_as_ann(gateway, "d:headers", **operator)) == "OK"


async def test_calls_as_oneself_use_ones_own_logins() -> None:
    async with protected() as gateway:
        for name in "scx":
            assert code(await try_as_ann(gateway, f"{name}:headers")) == "OK"


async def test_a_user_without_a_login_starts_no_sign_in() -> None:
    async with page_gateway() as gateway:
        envelope = await try_as_ann(gateway, "s:headers", sub="carla")
        check_refusal(envelope, "LOGIN_REQUIRED")
        assert envelope["error"]["details"] == {"server_id": "s"}
        headers = bearer(gateway.token(sub=...))
        (server,) = (await gateway.served.http.get(SERVERS, headers=headers)).json()["servers"]
        assert server["state"] == "ready"
