"""A gateway before a server that requires a sign-in, and users who sign in and out."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import httpx

from mcp_tools_proxy.app.open_sign_in import open_sign_in
from mcp_tools_proxy.domain.logins import EndedLogin, Login
from mcp_tools_proxy.settings.settings import Settings
from tests.downstream.caller_gateway import TOOLS, serving_entry
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.oauth_issuer import Issuer, protect, running_issuer
from tests.support.plain_http import NO_TLS
from tests.support.service import CONFIG_DIR, SERVERS, Service, eventually

KEY = "0123456789abcdef0123456789abcdef"
REDIRECT = "http://127.0.0.1:9/oauth/callback"
SETTINGS: dict[str, Any] = {"credentials_key": (KEY,)}


@asynccontextmanager
async def signing_in(
    scope: str | None = None, **auth: object
) -> AsyncIterator[tuple[Service, RawServer, Issuer]]:
    """Serve a gateway before a server that requires a sign-in."""
    async with (
        running_issuer() as issuer,
        running_raw(only=TOOLS) as server,
    ):
        protect(server, issuer, scope=scope)
        entry = {**server.entry, "auth": {"type": "oauth", **auth}}
        async with serving_entry(entry, **SETTINGS) as service:
            yield service, server, issuer


async def sign_in(
    *scopes: str,
    tenant: str | None = None,
    user: str | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Login:
    """Sign in like the command, with a browser that follows redirects."""
    settings = Settings.model_validate({**SETTINGS, **more})
    async with (
        open_sign_in(settings, CONFIG_DIR, "s", tenant_id=tenant, user_id=user) as opened,
        httpx.AsyncClient(verify=NO_TLS) as browser,
    ):
        pending = await opened.sign_in.begin(
            opened.owner, opened.caller, redirect_uri=REDIRECT, scopes=scopes
        )
        response = await browser.get(pending.url)
        answer = dict(httpx.URL(response.headers["location"]).params)
        return await opened.sign_in.finish(pending, answer)


async def sign_out() -> EndedLogin | None:
    settings = Settings.model_validate(SETTINGS)
    async with open_sign_in(settings, CONFIG_DIR, "s", tenant_id=None, user_id=None) as opened:
        return await opened.sign_in.sign_out(opened.owner, opened.caller)


async def shown(service: Service) -> Json:
    found: Json = (await service.http.get(SERVERS)).json()["servers"][0]
    return found


async def state(service: Service) -> str:
    return str((await shown(service))["state"])


async def ready(service: Service) -> None:
    async def is_ready() -> bool:
        return await state(service) == "ready"

    await eventually(is_ready)
