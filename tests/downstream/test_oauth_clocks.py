from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_tools_proxy.downstream.oauth.login_renewal import StoredLogins
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthWeb
from mcp_tools_proxy.downstream.oauth.server_tokens import RETRY_S, OwnerTokens
from mcp_tools_proxy.downstream.oauth.session_tokens import now
from mcp_tools_proxy.downstream.oauth.token_endpoint import AccessToken
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.downstream.caller_gateway import TOOLS, serving_entry
from tests.downstream.oauth_calls import call, code, jwt_of, jwt_settings
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.oauth_issuer import protect, running_issuer
from tests.support.renewed_logins import CLIENT, discovered_at, login_at
from tests.support.stored_logins import ANA, SEALER
from tests.support.virtual_time import ManualClock

LIFE_S = 3600
MINUTE_S = 60

Renew = Callable[[ManualClock], Awaitable[AccessToken]]


@asynccontextmanager
async def login_in(folder: Path, *, ends_at: float) -> AsyncIterator[Renew]:
    """Store a login, and yield a replica's result of looking it up with its clock."""
    async with running_issuer(expires_in=LIFE_S) as issuer:
        web = OAuthWeb()
        try:
            found = await discovered_at(web, issuer.url)
            login = login_at(issuer.url, expires_at=ends_at)
            issuer.refreshes = {login.refresh_token or "": ""}
            store = FileLogins(folder)
            await store.put(ANA, login.binding, SEALER.seal(login))

            async def token(clock: ManualClock) -> AccessToken:
                logins = StoredLogins(web, store, SEALER, now=clock)
                stored = await logins.find(ANA)
                assert stored is not None
                return await logins.token(stored, found, CLIENT)

            yield token
        finally:
            await web.close()


@pytest.mark.parametrize(("left_s", "is_renewed"), [(61, False), (59, True)])
async def test_a_login_is_renewed_before_a_server_with_a_fast_clock_refuses_it(
    tmp_path: Path, left_s: int, is_renewed: bool
) -> None:
    async with login_in(tmp_path, ends_at=10_000) as token:
        found = await token(ManualClock(10_000 - left_s))
    assert (found.access != "access-1") == is_renewed


async def test_a_replica_with_a_slow_clock_uses_no_expired_login(
    tmp_path: Path,
) -> None:
    async with login_in(tmp_path, ends_at=0) as token:
        renewed = await token(ManualClock(10_000))
        last, over = (ManualClock(10_000 + LIFE_S + it - MINUTE_S) for it in (-1, 0))
        assert (await token(last)).access == renewed.access
        assert (await token(over)).access != renewed.access


async def test_token_expiry_uses_elapsed_time_despite_clock_changes() -> None:
    """The wall clock is set back by an hour; the token still expires on time."""
    day, passed = ManualClock(10_000), ManualClock(0)
    issued: list[AccessToken] = []

    async def issue(_: str | None) -> AccessToken:
        issued.append(AccessToken(access=f"{len(issued)}", expires_at=day.now + LIFE_S))
        return issued[-1]

    tokens = OwnerTokens(issue, day, is_stored=False, clock=passed)
    assert (await tokens.current()).access == "0"
    day.now -= LIFE_S
    passed.now = LIFE_S - MINUTE_S - 1
    assert (await tokens.current()).access == "0"
    passed.now = LIFE_S - MINUTE_S
    assert (await tokens.current()).access == "1"


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_token_is_used_until_its_expiry_while_its_issuer_is_down(is_refused: bool) -> None:
    passed = ManualClock(0)
    issued = [AccessToken(access="first", expires_at=LIFE_S)]

    async def issue(_: str | None) -> AccessToken:
        if not issued:
            raise IssuerUnavailable("the issuer is down")
        return issued.pop()

    tokens = OwnerTokens(issue, lambda: 0.0, is_stored=False, clock=passed)
    first = await tokens.current()
    if is_refused:
        tokens.drop(first.access)
    else:
        passed.now = LIFE_S - MINUTE_S + 1
        assert await tokens.current() is first
        issued.append(AccessToken(access="second", expires_at=LIFE_S))
        passed.now += RETRY_S
        assert (await tokens.current()).access == "second"
        passed.now += LIFE_S
    with pytest.raises(IssuerUnavailable):
        await tokens.current()


@pytest.mark.parametrize(
    ("claim", "seconds", "leeway_s", "expected"),
    [
        ("iat", 55, 60, "OK"),
        ("nbf", 55, 60, "OK"),
        ("iat", 65, 10, "UNAUTHENTICATED"),
        ("nbf", 65, 10, "UNAUTHENTICATED"),
        ("exp", -65, 10, "UNAUTHENTICATED"),
        # valid as a caller's token, but the token exchanged for it would have expired with it
        ("exp", -55, 60, "CREDENTIALS_INSUFFICIENT"),
    ],
)
async def test_a_jwt_of_an_issuer_whose_clock_differs_by_a_minute(
    claim: str, seconds: int, leeway_s: int, expected: str
) -> None:
    client = {"clientId": "proxy", "clientSecret": "s3cret"}
    auth = {
        "type": "oauth",
        "grant": "token_exchange",
        "for": "user",
        **client,
        "discovery": {"grant": "client_credentials", **client},
    }
    async with running_issuer() as issuer, running_raw(only=TOOLS) as server:
        protect(server, issuer)
        entry = {**server.entry, "auth": auth, "isolation": "user"}
        settings = {**jwt_settings(issuer), "jwt_leeway_s": leeway_s}
        async with serving_entry(entry, **settings) as service:
            jwt = jwt_of(issuer, **{claim: int(now()) + seconds})
            assert code(await call(service, token=jwt)) == expected
    exchanged = [it for it in issuer.token_requests if "subject_token" in it]
    assert len(exchanged) == (expected == "OK")
