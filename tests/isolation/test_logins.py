"""No byte of a token reaches the other tenant, whose users have the same ids."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx
from aiohttp import web

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.server import LoginFor
from mcp_tools_proxy.downstream.oauth.server_sign_in import SignIn
from tests.login_pages.page_gateway import LOGINS, PageGateway, page_gateway
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.oauth_issuer import Issuer, protect
from tests.support.service import BATCH, EXECUTE, RESOURCES
from tests.support.tokens import bearer

TENANTS = ("acme", "globex")
ENTRIES = ("s", "t", "c", "x")
"""Entries with user logins, tenant logins, tenant clients and users' JWTs."""


class Person(NamedTuple):
    tenant_id: str
    user_id: str

    @property
    def resource(self) -> str:
        return f"raw://item/{self.tenant_id}-{self.user_id}"


PEOPLE = tuple(Person(*it) for it in product(TENANTS, ("ann", "bob")))
"""Ann of each tenant is signed in; bob is not."""


@dataclass
class Tenants:
    """The gateway of two tenants, and the owner of each token."""

    gateway: PageGateway
    sent: list[tuple[str | None, str]]
    """The resource and token of each request to the servers."""
    jwts: Mapping[Person, str]
    logins: dict[str, tuple[Person, ...]] = field(default_factory=dict)
    """Owners of the logins' tokens."""

    def owners_of(self, token: str) -> tuple[Person, ...]:
        """Return the owners of a token; discovery tokens have none."""
        if token in self.logins:
            return self.logins[token]
        found = self.gateway.issuer.find(token) or self.gateway.own.find(token)
        assert found is not None
        subject = found.form.get("subject_token")
        return tuple(
            it
            for it in PEOPLE
            if self.jwts[it] == subject or found.client_id == f"client of {it.tenant_id}"
        )

    def foreign_words(self, person: Person) -> list[str]:
        """Return the values that no answer to this caller may contain."""
        gateway = self.gateway
        tokens = [it.token for it in (*gateway.issuer.issued, *gateway.own.issued)]
        others = [it for it in tokens if person not in self.owners_of(it)]
        return [*others, *(it for it in TENANTS if it != person.tenant_id)]

    async def sign_in(self, person: Person) -> None:
        claims = {"tenant_id": person.tenant_id, "sub": person.user_id}
        self.gateway.sign_in_as(**claims)
        url = await self.gateway.address("s:headers", **claims)
        closing = await self.gateway.sign_in(self.gateway.browser(), url)
        assert "<h1>Connected" in closing.text
        self.logins[self.gateway.issuer.issued[-1].token] = (person,)

    async def sign_in_tenant(self, tenant_id: str) -> None:
        gateway = self.gateway.served.service.gateway
        config = gateway.publisher.configuration.servers["t"]
        assert config.auth is not None
        sign_in = SignIn(config, config.auth, (await gateway.oauth.open()).parts)
        owner = LoginOwner(server_id="t", login_for=LoginFor.TENANT, tenant_id=tenant_id)
        pending = await sign_in.begin(owner, None, redirect_uri="http://127.0.0.1:1/callback")
        async with httpx.AsyncClient() as http:
            location = (await http.get(pending.url)).headers["location"]
        login = await sign_in.finish(pending, dict(parse_qsl(urlsplit(location).query)))
        self.logins[login.access_token] = tuple(it for it in PEOPLE if it.tenant_id == tenant_id)

    async def post(self, person: Person, path: str, body: Json) -> httpx.Response:
        headers = bearer(self.jwts[person])
        return await self.gateway.served.http.post(path, json=body, headers=headers)

    async def execute(self, person: Person, server_id: str) -> Json:
        """Call a server's tool, with the idempotency key shared by all callers."""
        body = {"tool_name": f"{server_id}:headers", "idempotency_key": f"same for {server_id}"}
        envelope: Json = (await self.post(person, EXECUTE, body)).json()
        return envelope

    async def texts(self, person: Person) -> Sequence[str]:
        """Return all answers to a caller, over each entry point concurrently."""
        served, headers = self.gateway.served, bearer(self.jwts[person])
        names = [f"{it}:headers" for it in ENTRIES]
        requests = [
            *(self.post(person, EXECUTE, {"tool_name": it, "arguments": {}}) for it in names),
            self.post(person, BATCH, {"calls": [{"tool_name": it} for it in names]}),
            self.post(person, f"{RESOURCES}/read", {"uri": person.resource}),
            served.http.get(LOGINS, headers=headers),
            *(
                served.request("tools/call", {"name": it, "arguments": {}}, headers=headers)
                for it in names
            ),
            *(
                served.request(it, headers=headers)
                for it in ("tools/list", "resources/list", "resources/templates/list")
            ),
            served.request("resources/read", {"uri": person.resource}, headers=headers),
        ]
        return [it.text for it in await asyncio.gather(*requests)]


@asynccontextmanager
async def two_tenants(folder: Path) -> AsyncIterator[Tenants]:
    """Serve entries with each kind of token, and sign in the users and tenants that have logins."""
    for tenant_id, (name, text) in product(TENANTS, (("id", "client"), ("secret", "secret"))):
        secret = folder / tenant_id / name
        secret.parent.mkdir(exist_ok=True)
        secret.write_text(f"{text} of {tenant_id}")
    sent: list[tuple[str | None, str]] = []

    def entries(own: Issuer, issuer: Issuer, server: RawServer) -> Json:
        issuer.secrets |= {f"client of {it}": f"secret of {it}" for it in TENANTS}
        protect(of_exchange, own)
        protected = server.instead

        def instead(request: web.Request) -> web.Response | None:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            sent.append((request.headers.get("Mcp-Name"), token))
            return protected(request)

        server.instead = instead
        return entries_of(server, of_exchange, issuer)

    async with (
        running_raw(only=("headers",)) as of_exchange,
        page_gateway(more=entries, secrets_dir=folder) as gateway,
    ):
        jwts = {it: gateway.token(tenant_id=it.tenant_id, sub=it.user_id) for it in PEOPLE}
        tenants = Tenants(gateway, sent, jwts)
        for tenant_id in TENANTS:
            await tenants.sign_in_tenant(tenant_id)
            await tenants.sign_in(Person(tenant_id, "ann"))
        yield tenants


def entries_of(server: RawServer, of_exchange: RawServer, issuer: Issuer) -> Json:
    proxy = {"grant": "client_credentials", "clientId": "proxy", "clientSecret": "s3cret"}
    pages = {"grant": "client_credentials", "clientId": "pages", "clientSecret": "s1gn-in"}
    at_issuer = {"type": "oauth", "authorizationServer": issuer.url, "for": "tenant"}
    of_tenant = {
        f"client{part.title()}": f"${{secret:${{caller.tenant_id}}/{part}}}"
        for part in ("id", "secret")
    }
    return {
        "t": {**server.entry, "isolation": "tenant", "auth": {**at_issuer, "discovery": proxy}},
        "c": {
            **server.entry,
            "isolation": "tenant",
            "auth": {**at_issuer, **of_tenant, "grant": "client_credentials"},
            "discoveryCaller": {"tenant_id": "acme"},
        },
        "x": {
            **of_exchange.entry,
            "isolation": "user",
            "auth": {
                "type": "oauth",
                **pages,
                "grant": "token_exchange",
                "for": "user",
                "discovery": pages,
            },
        },
    }


def owner(login: Json) -> tuple[str, str, str, str | None]:
    return login["server_id"], login["for"], login["tenant_id"], login.get("user_id")


def holds(text: str, word: str) -> bool:
    """Return whether a whole word is in a text: "token-1" is not in "token-12"."""
    return re.search(rf"{re.escape(word)}(?!\d)", text) is not None


async def test_tokens_answers_and_lists_contain_nothing_of_other_callers(tmp_path: Path) -> None:
    async with two_tenants(tmp_path) as tenants:
        for _ in range(2):  # with new sessions and tokens, then with existing ones
            texts = await asyncio.gather(*(tenants.texts(it) for it in PEOPLE))
            for person, answers in zip(PEOPLE, texts, strict=True):
                assert len(answers) == 15
                words = tenants.foreign_words(person)
                assert len(words) > 4
                assert [(it, text) for it in words for text in answers if holds(text, it)] == []
        reads = [it for it in tenants.sent if (it[0] or "").startswith("raw://item/")]
        used = {(name, owner) for name, token in reads for owner in tenants.owners_of(token)}
        assert len(used) >= 2
        assert [it for it in used if it[0] != it[1].resource] == []


async def test_each_call_is_sent_with_the_token_of_its_own_caller(tmp_path: Path) -> None:
    async with two_tenants(tmp_path) as tenants:
        wanted = (
            list(product(PEOPLE, ENTRIES)) * 2
        )  # the second time from the idempotency key's stored result
        envelopes = await asyncio.gather(*(tenants.execute(*it) for it in wanted))
        owners: dict[tuple[Person, str], set[Person]] = {}
        for (person, server_id), envelope in zip(wanted, envelopes, strict=True):
            if (person.user_id, server_id) == ("bob", "s"):
                assert envelope["error"]["code"] == "LOGIN_REQUIRED"
                continue
            assert envelope["status"] == "ok", (person, server_id, envelope)
            token = envelope["result"]["structured_content"]["authorization"]
            owners.setdefault((person, server_id), set()).update(
                tenants.owners_of(token.removeprefix("Bearer "))
            )
    for (person, server_id), found in owners.items():
        shares = server_id in "tc"
        assert found == {it for it in PEOPLE if it == person or (shares and it[0] == person[0])}
    assert len(owners) == len(PEOPLE) * len(ENTRIES) - 2


async def test_users_list_and_end_only_their_own_login(tmp_path: Path) -> None:
    async with two_tenants(tmp_path) as tenants:
        http, may = tenants.gateway.served.http, [OperatorRight.LOGINS.value]
        for tenant_id in TENANTS:
            of_operator = tenants.gateway.token(tenant_id=tenant_id, sub=..., may=may)
            shown = await http.get(
                LOGINS, params={"tenant_id": tenant_id}, headers=bearer(of_operator)
            )
            assert [owner(it) for it in shown.json()["logins"]] == [
                ("s", "user", tenant_id, "ann"),
                ("t", "tenant", tenant_id, None),
            ]
            params = {"tenant_id": tenant_id, "for": "tenant"}
            shown = await http.get(LOGINS, params=params, headers=bearer(of_operator))
            assert [it["server_id"] for it in shown.json()["logins"]] == ["t"]
        acme, globex = (Person(it, "ann") for it in TENANTS)
        for person in (acme, globex):
            listed = await http.get(LOGINS, headers=bearer(tenants.jwts[person]))
            assert [owner(it) for it in listed.json()["logins"]] == [("s", "user", *person)]
        ended = await http.delete(
            LOGINS, params={"server_id": "s"}, headers=bearer(tenants.jwts[acme])
        )
        assert ended.json() == {"removed": True}
        assert (await tenants.execute(acme, "s"))["error"]["code"] == "LOGIN_REQUIRED"
        assert (await tenants.execute(globex, "s"))["status"] == "ok"
