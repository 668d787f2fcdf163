import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.logins import Login
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.downstream.oauth.discovery import Discovered
from mcp_tools_proxy.downstream.oauth.login_flow import DeviceCode, LoginRequest, request_device
from mcp_tools_proxy.downstream.oauth.login_renewal import LoginNeeded, StoredLogins
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    MAX_BYTES,
    IssuerUnavailable,
    OAuthRefused,
    OAuthWeb,
)
from mcp_tools_proxy.downstream.oauth.token_endpoint import (
    MAX_LIFE_S,
    AccessToken,
    IssuerClient,
)
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.support.configuration import Json
from tests.support.oauth_issuer import Issuer, running_issuer
from tests.support.renewed_logins import CLIENT, discovered_at, login_at
from tests.support.stored_logins import ANA, SEALER
from tests.support.virtual_time import ManualClock

NOW = 10_000.0
TOKEN: Json = {"access_token": "token", "token_type": "Bearer", "expires_in": 3600}


@dataclass
class Renewals:
    """A login that needs renewal, at an issuer with configurable responses."""

    issuer: Issuer
    logins: StoredLogins
    found: Discovered

    def answer(self, content: bytes | Json, status: int = 200) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()

        def instead(request: web.Request) -> web.Response | None:
            if request.path != "/token":
                return None
            return web.Response(body=body, status=status, content_type="application/json")

        self.issuer.instead = instead

    async def token(self) -> AccessToken:
        stored = await self.logins.find(ANA)
        if stored is None:
            raise LoginNeeded("there is no login yet")
        return await self.logins.token(stored, self.found, CLIENT)

    async def login(self) -> Login:
        stored = await self.logins.find(ANA)
        login = None if stored is None else self.logins.open(stored)
        assert login is not None
        return login

    @property
    def sent(self) -> int:
        """Number of refresh tokens sent to the issuer."""
        return len(self.issuer.token_requests)


@asynccontextmanager
async def renewals(folder: Path, quota: Quota | None = None) -> AsyncIterator[Renewals]:
    async with running_issuer() as issuer:
        oauth_web = OAuthWeb()
        try:
            store = FileLogins(folder, quota=quota)
            logins = StoredLogins(oauth_web, store, SEALER, now=ManualClock(NOW))
            await logins.keep(login_at(issuer.url, expires_at=0.0))
            yield Renewals(issuer, logins, await discovered_at(oauth_web, issuer.url))
        finally:
            await oauth_web.close()


@pytest.mark.parametrize(
    "content",
    [
        b"no JSON",
        b"[]",
        b"[" * 500,
        b'{"access_token": "\\ud800", "token_type": "Bearer"}',
        b" " * MAX_BYTES + b"{}",
        {**TOKEN, "token_type": "DPoP"},
        {**TOKEN, "access_token": "with a space"},
        {**TOKEN, "access_token": {"of": "an object"}},
        {**TOKEN, "refresh_token": ["of a list"]},
        {**TOKEN, "expires_in": float("nan")},
        {**TOKEN, "expires_in": "soon"},
    ],
)
async def test_a_refresh_token_is_sent_once_even_if_the_answer_is_unusable(
    tmp_path: Path, content: bytes | Json
) -> None:
    """The issuer has consumed it, and treats a second use as theft."""
    async with renewals(tmp_path) as renewal:
        renewal.answer(content)
        with pytest.raises(OAuthRefused):
            await renewal.token()
        with pytest.raises(LoginNeeded):
            await renewal.token()
        assert renewal.sent == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"no JSON", 401), ({"error": "invalid_client"}, 401), ({"error": "some_fault"}, 200)],
)
async def test_a_refresh_token_is_sent_again_after_a_temporary_refusal(
    tmp_path: Path, content: bytes | Json, status: int
) -> None:
    async with renewals(tmp_path) as renewal:
        renewal.answer(content, status)
        with pytest.raises(OAuthRefused):
            await renewal.token()
        renewal.answer(TOKEN)
        assert (await renewal.token()).access == "token"
        assert renewal.sent == 2


@pytest.mark.parametrize(
    ("life_s", "known_s"), [(10**400, MAX_LIFE_S), (-(10**400), 0), ("60", 60), (True, 1)]
)
async def test_a_token_lifetime_is_bounded_for_every_number(
    tmp_path: Path, life_s: Any, known_s: int
) -> None:
    async with renewals(tmp_path) as renewal:
        renewal.answer({**TOKEN, "expires_in": life_s})
        assert (await renewal.token()).expires_at == NOW + known_s


async def test_renewals_do_not_let_a_login_grow(tmp_path: Path) -> None:
    async with renewals(tmp_path) as renewal:
        before = (await renewal.login()).scopes
        for number in range(3):
            scope = " ".join(f"scope-{number}-{it}" for it in range(1000))
            renewal.answer({**TOKEN, "expires_in": 0, "scope": scope})
            await renewal.token()
        assert (await renewal.login()).scopes == before


@pytest.mark.parametrize("field", ["access_token", "refresh_token"])
async def test_a_renewal_over_the_quota_serves_its_call_and_ends_the_login(
    tmp_path: Path, field: str
) -> None:
    async with renewals(tmp_path, Quota(kind="logins", count=0, bytes=20_000)) as renewal:
        renewal.answer({**TOKEN, field: "x" * 30_000})
        assert (await renewal.token()).expires_at == NOW + 3600
        with pytest.raises(LoginNeeded):
            await renewal.token()
        assert renewal.sent == 1


async def test_scopes_demanded_by_a_server_are_not_kept_over_the_quota(tmp_path: Path) -> None:
    async with renewals(tmp_path, Quota(kind="logins", count=0, bytes=4_000)) as renewal:
        before = await renewal.login()
        await renewal.logins.note_demanded(ANA, tuple(f"{n:0200}" for n in range(100)))
        assert await renewal.login() == before


DEVICE: Json = {
    "device_code": "device-1",
    "user_code": "ABCD-EFGH",
    "verification_uri": "https://issuer.example/activate",
    "expires_in": 600,
}


async def _device(**lies: Any) -> DeviceCode:
    """Request a device code from an issuer whose response has these parts."""
    async with running_issuer() as issuer:
        body = json.dumps({**DEVICE, **lies})
        oauth_web = OAuthWeb()
        found = await discovered_at(oauth_web, issuer.url)
        issuer.instead = lambda _: web.Response(text=body, content_type="application/json")
        try:
            request = LoginRequest(
                owner=ANA,
                resource=found.resource,
                issuer=issuer.url,
                scopes=None,
                client=IssuerClient(client_id="proxy"),
            )
            return await request_device(oauth_web, found.issuer, request)
        finally:
            await oauth_web.close()


@pytest.mark.parametrize(
    "lies",
    [
        {"expires_in": float("nan")},
        {"expires_in": 10**400},
        {"interval": float("nan")},
        {"interval": float("inf")},
        {"interval": None},
        {"user_code": "ABCD\x1b[2J"},
        {"user_code": "ABCD\nOpen https://evil.example"},
        {"user_code": ["ABCD"]},
        {"device_code": None},
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "http://issuer.example/activate"},
        {"verification_uri": "https://bank.example@issuer.example/"},
    ],
)
async def test_an_invalid_device_code_is_refused(lies: Json) -> None:
    with pytest.raises(OAuthRefused):
        await _device(**lies)


async def test_the_times_of_a_device_code_are_bounded() -> None:
    device = await _device(expires_in=10**9, interval=0, verification_uri="https://a.example/\x1bx")
    assert (device.expires_in_s, device.interval_s) == (1800, 1)
    assert device.verification_uri == "https://a.example/%1Bx"


@pytest.mark.parametrize(("status", "sent"), [(429, 2), (503, 2), (500, 1), (502, 1), (504, 1)])
async def test_a_refresh_token_is_sent_again_only_if_its_request_was_not_started(
    tmp_path: Path, status: int, sent: int
) -> None:
    async with renewals(tmp_path) as renewal:
        renewal.answer(b"", status)
        with pytest.raises(IssuerUnavailable):
            await renewal.token()
        renewal.answer(TOKEN)
        with nullcontext() if sent == 2 else pytest.raises(LoginNeeded):
            await renewal.token()
        assert renewal.sent == sent
