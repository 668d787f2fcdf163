import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from mcp_tools_proxy.downstream.isolated_sessions import MAX_SESSIONS_OF_USER
from mcp_tools_proxy.downstream.oauth.server_tokens import MAX_TOKENS_OF_USER
from mcp_tools_proxy.downstream.oauth.session_tokens import now
from tests.downstream.oauth_calls import code, jwt_of, jwt_settings, sent_token
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import BOTH, Served, serving
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.oauth_issuer import Issuer, protect, running_issuer
from tests.support.service import EXECUTE, SERVERS
from tests.support.tokens import bearer

PROXY = {"clientId": "proxy", "clientSecret": "s3cret"}
TOOL = {"name": "s:headers", "arguments": {}}

RIGHTS: dict[str, tuple[Json, Json]] = {
    "roles": ({"roles": ["admin", "reader"]}, {"roles": ["reader"]}),
    "no roles": ({"roles": ["admin"]}, {}),
    "documents": ({"docs": ["a", "b"]}, {"docs": ["a"]}),
    "scope": ({"scope": "read write"}, {"scope": "read"}),
    "nested": ({"access": {"s": {"may": ["x"]}}}, {"access": {"s": {"may": []}}}),
}
"""Claims of a JWT with wide rights, and of one with narrow rights of the same user."""


@dataclass
class Gateway:
    """A gateway in front of a server that accepts only an issuer's tokens."""

    served: Served
    issuer: Issuer

    def jwt(self, **claims: object) -> str:
        return jwt_of(self.issuer, **claims)

    async def execute(self, jwt: str, **more: object) -> Json:
        body = {"tool_name": TOOL["name"], "arguments": {}, **more}
        answer = await self.served.http.post(EXECUTE, json=body, headers=bearer(jwt))
        envelope: Json = answer.json()
        return envelope

    def subject_of(self, token: str) -> str:
        """Return the JWT that a token was exchanged for."""
        found = self.issuer.find(token)
        assert found is not None
        assertion = found.form.get("assertion")
        return found.form["subject_token"] if assertion is None else self.subject_of(assertion)

    @property
    def exchanges(self) -> int:
        return sum("subject_token" in it for it in self.issuer.token_requests)


async def by_http(gateway: Gateway, jwt: str) -> str:
    """Call a tool over the HTTP API; return the token sent to the server."""
    return sent_token(await gateway.execute(jwt))


async def by_mcp(gateway: Gateway, jwt: str) -> str:
    answer = (await gateway.served.request("tools/call", TOOL, headers=bearer(jwt))).json()
    return str(answer["result"]["structuredContent"]["authorization"]).removeprefix("Bearer ")


WAYS = (by_http, by_mcp)


@asynccontextmanager
async def exchanging(era: str = "modern", grant: str = "token_exchange") -> AsyncIterator[Gateway]:
    async with running_issuer() as issuer, running_raw(era=era, only=("headers",)) as server:
        protect(server, issuer)
        auth: Json = {"type": "oauth", "grant": grant, "for": "user", **PROXY}
        auth["discovery"] = {"grant": "client_credentials", **PROXY}
        if grant == "id_jag":
            auth |= {"idp": PROXY, "authorizationServer": issuer.url}
        own = {**server.entry, "auth": auth, "isolation": "user"}
        preset = make_preset(tools=[("s", "headers")])
        config = Config(
            servers={"s": own}, presets=[preset], more={"defaultPresetId": preset["id"]}
        )
        settings = {**jwt_settings(issuer), "jwt_documents_claim": "docs", "require_agent": False}
        async with serving(config=config, **settings) as served:
            await served.service.discovered()
            yield Gateway(served, issuer)


@pytest.mark.parametrize("narrow_first", [False, True], ids=["wide first", "narrow first"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rights", RIGHTS)
async def test_a_jwt_never_uses_the_token_of_one_with_other_rights(
    rights: str, way: Callable[[Gateway, str], Awaitable[str]], narrow_first: bool
) -> None:
    async with exchanging() as gateway:
        jwts = [gateway.jwt(**claims) for claims in RIGHTS[rights]]
        if narrow_first:
            jwts.reverse()
        tokens = [await way(gateway, jwt) for jwt in (*jwts, *jwts)]
        assert [gateway.subject_of(it) for it in tokens] == [*jwts, *jwts]
        assert gateway.exchanges == 2


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_parallel_calls_are_each_sent_with_their_token(era: str) -> None:
    async with exchanging(era) as gateway:
        jwts = [
            gateway.jwt(sub=sub, **claims) for sub in ("ann", "bob") for claims in RIGHTS["roles"]
        ] * 3
        ways = [WAYS[number % 2] for number in range(len(jwts))]
        calls = (way(gateway, jwt) for way, jwt in zip(ways, jwts, strict=True))
        tokens = await asyncio.gather(*calls)
        assert [gateway.subject_of(it) for it in tokens] == jwts
        assert gateway.exchanges == 4


async def test_requests_of_one_mcp_session_are_each_sent_with_their_token() -> None:
    async with exchanging("legacy") as gateway:
        wide, narrow = (gateway.jwt(**claims) for claims in RIGHTS["scope"])
        session_id = await gateway.served.open_session(headers=bearer(wide))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": TOOL}
        subjects = []
        for jwt in (wide, narrow, wide):
            headers = {**BOTH, **bearer(jwt), "Mcp-Session-Id": session_id}
            answer = await gateway.served.http.post("/mcp", json=body, headers=headers)
            (token,) = [it.token for it in gateway.issuer.issued if f'{it.token}"' in answer.text]
            subjects.append(gateway.subject_of(token))
        assert subjects == [wide, narrow, wide]


@pytest.mark.parametrize("way", WAYS)
async def test_a_renewed_jwt_with_equal_claims_shares_the_token(
    way: Callable[[Gateway, str], Awaitable[str]],
) -> None:
    async with exchanging() as gateway:
        claims: Json = {"roles": ["reader"], "scope": "read", "sid": "s1", "auth_time": 1}
        renewed = [
            {"iat": int(now()) - 3, "exp": int(now()) + 600, "jti": "a", "uti": "a"},
            {"iat": int(now()) - 2, "exp": int(now()) + 900, "jti": "b", "nbf": int(now()) - 2},
            {"at_hash": "c", **claims},
        ]
        tokens = {await way(gateway, gateway.jwt(**{**claims, **it})) for it in renewed}
        assert (len(tokens), gateway.exchanges) == (1, 1)
        shown = await gateway.served.http.get(SERVERS, headers=bearer(gateway.jwt()))
        (status,) = shown.json()["servers"]
        assert status["sessions"]["open"] == 1


async def test_users_with_equal_claims_have_separate_tokens() -> None:
    async with exchanging() as gateway:
        jwts = [gateway.jwt(sub=sub, roles=["admin"]) for sub in ("ann", "bob")]
        tokens = [await by_http(gateway, jwt) for jwt in jwts * 2]
        assert [gateway.subject_of(it) for it in tokens] == jwts * 2
        assert gateway.exchanges == 2


async def test_an_assertion_belongs_to_the_jwt_of_its_call() -> None:
    async with exchanging(grant="id_jag") as gateway:
        jwts = [gateway.jwt(**claims) for claims in RIGHTS["roles"]]
        tokens = [await by_http(gateway, jwt) for jwt in jwts * 2]
        assert [gateway.subject_of(it) for it in tokens] == jwts * 2
        assert gateway.exchanges == 2


async def test_the_tokens_kept_for_one_user_are_bounded() -> None:
    async with exchanging() as gateway:
        bob = gateway.jwt(sub="bob")
        await by_http(gateway, bob)
        jwts = [gateway.jwt(roles=[f"role-{it}"]) for it in range(MAX_TOKENS_OF_USER + 1)]
        for jwt in jwts:
            assert gateway.subject_of(await by_http(gateway, jwt)) == jwt
        shown = await gateway.served.http.get(SERVERS, headers=bearer(bob))
        (status,) = shown.json()["servers"]
        assert status["sessions"]["open"] == MAX_SESSIONS_OF_USER + 1
        before = gateway.exchanges
        for jwt in (bob, jwts[-1]):
            await by_http(gateway, jwt)
        assert gateway.exchanges == before
        await by_http(gateway, jwts[0])
        assert gateway.exchanges == before + 1


async def test_an_idempotency_key_replays_nothing_for_a_jwt_with_other_claims() -> None:
    async with exchanging() as gateway:
        wide, narrow = (gateway.jwt(**claims) for claims in RIGHTS["scope"])
        first = await gateway.execute(wide, idempotency_key="k")
        assert code(await gateway.execute(narrow, idempotency_key="k")) == "IDEMPOTENCY_CONFLICT"
        renewed = gateway.jwt(**RIGHTS["scope"][0], jti="renewed")
        again = await gateway.execute(renewed, idempotency_key="k")
        assert (again["result"], gateway.exchanges) == (first["result"], 1)
