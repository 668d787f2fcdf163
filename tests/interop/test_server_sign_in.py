"""The gateway signs in to servers of the SDK at npm's issuer, and at one that attacks it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from yarl import URL

from mcp_tools_proxy.app.open_sign_in import OpenedSignIn, open_sign_in
from mcp_tools_proxy.domain.oauth.logins import Login
from mcp_tools_proxy.downstream.oauth.login_flow import PendingLogin
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused
from mcp_tools_proxy.settings.settings import Settings
from tests.interop.oidc_provider import IssuerRecord, running_issuer, sign_in, sign_in_device
from tests.interop.sdk_auth_server import SdkAuthServer, running_sdk_auth_server
from tests.support.configuration import Config, Json, make_preset
from tests.support.service import CONFIG_DIR, SERVERS, Service, eventually, running

SCOPE = "tools"
ACCOUNT = "ada@tenant_1"
TOOL = "whoami"
KEY = "0123456789abcdef0123456789abcdef"
REDIRECT = "http://127.0.0.1:9/oauth/callback"
"""Nothing listens there: what a browser would be sent to is read from the redirect."""
SETTINGS: dict[str, Any] = {"credentials_key": (KEY,)}
ELSEWHERE = "http://elsewhere.example/mcp"
SECRET = "only in tests, of a client"


def client(client_id: str, *grants: str, **more: object) -> Json:
    return {
        "client_id": client_id,
        "client_secret": SECRET,
        "grant_types": list(grants),
        "redirect_uris": [],
        "response_types": [],
        **more,
    }


BROWSER = {"redirect_uris": [REDIRECT], "response_types": ["code"], "application_type": "native"}
CLIENTS = [
    client("robot", "client_credentials"),
    client("stray", "client_credentials"),
    client("victim", "authorization_code", "refresh_token", **BROWSER),
]


@dataclass(frozen=True)
class Judges:
    """Two issuers, the second of which belongs to an attacker, and servers that trust the first."""

    issuer: str
    record: IssuerRecord
    attacker: str
    attacker_record: IssuerRecord
    server: SdkAuthServer
    other: SdkAuthServer


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    folder = tmp_path_factory.mktemp("issuers")
    records = IssuerRecord(folder / "issuer"), IssuerRecord(folder / "attacker")
    options: dict[str, Any] = {
        "scopes": [SCOPE],
        "clients": CLIENTS,
        "audiences": {"stray": ELSEWHERE},
    }
    with (
        running_issuer(record=records[0].file, **options) as issuer,
        running_issuer(record=records[1].file, **options) as attacker,
        running_sdk_auth_server(issuer, SCOPE) as server,
        running_sdk_auth_server(issuer, SCOPE) as other,
    ):
        yield Judges(issuer, records[0], attacker, records[1], server, other)


@asynccontextmanager
async def gateway(auth: Json | None = None, **servers: SdkAuthServer) -> AsyncIterator[Service]:
    """Serve a gateway before servers; ``auth`` is added to each of their entries."""
    entries = {
        name: {**server.entry, "auth": {"type": "oauth", **(auth or {})}}
        for name, server in servers.items()
    }
    preset = make_preset(tools=[(name, TOOL) for name in servers])
    config = Config(servers=entries, presets=[preset], more={"defaultPresetId": preset["id"]})
    async with running(config=config, require_agent=False, **SETTINGS) as service:
        yield service


def opened(server_id: str) -> Any:
    settings = Settings.model_validate(SETTINGS)
    return open_sign_in(settings, CONFIG_DIR, server_id, tenant_id=None, user_id=None)


async def begun(sign_in: OpenedSignIn) -> PendingLogin:
    return await sign_in.sign_in.begin(sign_in.owner, sign_in.caller, redirect_uri=REDIRECT)


def answer_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


async def log_in(server_id: str = "s") -> Login:
    """Sign in as the command does."""
    async with opened(server_id) as found:
        pending = await begun(found)
        answer = answer_of(await sign_in(pending.url, ACCOUNT))
        login: Login = await found.sign_in.finish(pending, answer)
        return login


async def states(service: Service) -> set[str]:
    servers = (await service.http.get(SERVERS)).json()["servers"]
    return {it["state"] for it in servers}


async def ready(service: Service) -> None:
    async def are_ready() -> bool:
        return await states(service) == {"ready"}

    await eventually(are_ready)


async def whoami(service: Service, server_id: str = "s") -> Json:
    found: Json = (await service.result(f"{server_id}:{TOOL}"))["structured_content"]
    return found


async def test_a_person_signs_in_to_a_server_of_the_sdk(judges: Judges) -> None:
    async with gateway(s=judges.server) as service:
        assert await states(service) == {"login_required"}
        login = await log_in()
        await ready(service)
        found = await whoami(service)
    assert (found["subject"], found["resource"]) == (ACCOUNT, judges.server.url)
    assert found["token"] == login.access_token


ROBOT = {"grant": "client_credentials", "clientId": "robot", "clientSecret": SECRET}


async def test_client_credentials_are_enough_for_a_server_of_the_sdk(judges: Judges) -> None:
    auth = {**ROBOT, "authorizationServer": judges.issuer, "scopes": [SCOPE]}
    async with gateway(auth, s=judges.server) as service:
        found = await whoami(service)
    assert (found["subject"], found["resource"]) == ("robot", judges.server.url)
