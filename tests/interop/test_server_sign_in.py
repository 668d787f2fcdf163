"""The gateway signs in to the SDK's servers at npm's issuer, and at a malicious one."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from yarl import URL

from mcp_tools_proxy.app.open_sign_in import OpenedSignIn, list_logins, open_sign_in
from mcp_tools_proxy.domain.logins import Login, LoginFacts
from mcp_tools_proxy.downstream.oauth.login_flow import PendingLogin
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused
from mcp_tools_proxy.settings.settings import Settings
from tests.interop.oidc_provider import IssuerRecord, running_issuer, sign_in, sign_in_device
from tests.interop.sdk_auth_server import SdkAuthServer, running_sdk_auth_server
from tests.support.configuration import Config, Json, make_preset
from tests.support.program_launch import launch
from tests.support.service import CONFIG_DIR, SERVERS, Service, eventually, running

SCOPE = "tools"
ACCOUNT = "ada@tenant_1"
TOOL = "whoami"
KEY = "0123456789abcdef0123456789abcdef"
REDIRECT = "http://127.0.0.1:9/oauth/callback"
"""Nothing listens there: the tests read the browser's target from the redirect."""

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
    """Two issuers, one of an attacker, and servers that trust the other."""

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


def configure(
    server: SdkAuthServer, auth: Json | None = None, *, other: SdkAuthServer | None = None
) -> None:
    """Write the entry of a server, ``s``, and optionally of another, ``other``.

    ``auth`` is added to them.
    """
    servers = {"s": server, **({} if other is None else {"other": other})}
    entries = {
        name: {**it.entry, "auth": {"type": "oauth", **(auth or {})}}
        for name, it in servers.items()
    }
    preset = make_preset(tools=[(name, TOOL) for name in servers])
    more = {"defaultPresetId": preset["id"]}
    Config(servers=entries, presets=[preset], more=more).write(CONFIG_DIR)


@asynccontextmanager
async def gateway() -> AsyncIterator[Service]:
    """Serve a gateway before the configured servers."""
    async with running(require_agent=False, **SETTINGS) as service:
        await service.discovered()
        yield service


def opened(server_id: str) -> Any:
    settings = Settings.model_validate(SETTINGS)
    return open_sign_in(settings, CONFIG_DIR, server_id, tenant_id=None, user_id=None)


async def begun(sign_in: OpenedSignIn) -> PendingLogin:
    return await sign_in.sign_in.begin(sign_in.owner, sign_in.caller, redirect_uri=REDIRECT)


def answer_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


async def log_in(server_id: str = "s") -> Login:
    """Sign in like the command."""
    async with opened(server_id) as found:
        pending = await begun(found)
        answer = answer_of(await sign_in(pending.url, ACCOUNT))
        login: Login = await found.sign_in.finish(pending, answer)
        return login


async def stored_logins() -> list[LoginFacts]:
    return [*await list_logins(Settings.model_validate(SETTINGS), "")]


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


async def test_a_user_signs_in_to_a_server_of_the_sdk(judges: Judges) -> None:
    configure(judges.server)
    async with gateway() as service:
        assert await states(service) == {"login_required"}
        login = await log_in()
        await ready(service)
        found = await whoami(service)
    assert (found["subject"], found["resource"]) == (ACCOUNT, judges.server.url)
    assert found["token"] == login.access_token


ROBOT = {"grant": "client_credentials", "clientId": "robot", "clientSecret": SECRET}


async def test_client_credentials_are_sufficient_for_a_server_of_the_sdk(judges: Judges) -> None:
    auth = {**ROBOT, "authorizationServer": judges.issuer, "scopes": [SCOPE]}
    configure(judges.server, auth)
    async with gateway() as service:
        found = await whoami(service)
    assert (found["subject"], found["resource"]) == ("robot", judges.server.url)


async def test_a_token_of_one_server_is_never_sent_to_another(judges: Judges) -> None:
    servers = {"s": judges.server, "other": judges.other}
    seen = {server_id: len(server.sent) for server_id, server in servers.items()}
    configure(judges.server, other=judges.other)
    for server_id in servers:
        await log_in(server_id)
    async with gateway() as service:
        found = {server_id: (await whoami(service, server_id))["resource"] for server_id in servers}
    assert found == {server_id: server.url for server_id, server in servers.items()}
    for server_id, server in servers.items():
        assert {it["aud"] for it in server.claims[seen[server_id] :]} == {server.url}


async def test_a_server_that_demands_tokens_of_another_gets_none(judges: Judges) -> None:
    before = len(judges.record.registered())
    with running_sdk_auth_server(judges.issuer, SCOPE, resource=judges.server.url) as liar:
        configure(liar)
        with pytest.raises(OAuthRefused, match="does not match its url"):
            await log_in()
        assert liar.sent == []
    assert len(judges.record.registered()) == before


async def test_a_server_refuses_tokens_for_another_audience_after_two_attempts(
    judges: Judges,
) -> None:
    auth = {**ROBOT, "clientId": "stray", "authorizationServer": judges.issuer, "scopes": [SCOPE]}
    seen = len(judges.other.sent)
    configure(judges.other, auth)
    async with gateway() as service:
        (shown,) = (await service.http.get(SERVERS)).json()["servers"]
    assert (shown["state"], "refused a new token" in shown["last_error"]) == ("failed", True)
    assert [it["aud"] for it in judges.other.claims[seen:]] == [ELSEWHERE, ELSEWHERE]


async def test_each_refresh_token_is_sent_once_and_a_revoked_grant_needs_a_sign_in(
    judges: Judges,
) -> None:
    configure(judges.server)
    login = await log_in()
    async with gateway() as service:
        for _ in range(3):
            judges.server.refused.add((await whoami(service))["token"])
        last = (await whoami(service))["token"]
        _, *renewals = judges.record.token_requests(login.binding.client_id)
        sent = [it["request"]["refresh_token"] for it in renewals]
        given = [it["answer"]["refresh_token"] for it in renewals]
        assert sent == [login.refresh_token, *given[:-1]]
        assert len(set(sent)) == 3

        await revoke(judges, login.binding.client_id, given[-1])
        judges.server.refused.add(last)
        assert await service.code(f"s:{TOOL}") == "LOGIN_REQUIRED"
        assert await service.code(f"s:{TOOL}") == "LOGIN_REQUIRED"
    attempts = judges.record.token_requests(login.binding.client_id)[4:]
    assert [it["answer"]["error"] for it in attempts] == ["invalid_grant"]
    async with gateway() as later:
        assert await states(later) == {"login_required"}
        assert await later.code(f"s:{TOOL}") == "SERVER_UNAVAILABLE"


async def revoke(judges: Judges, client_id: str, refresh_token: str) -> None:
    """Revoke a grant, as its user can at the issuer."""
    (known,) = (it for it in judges.record.registered() if it["client_id"] == client_id)
    async with httpx.AsyncClient() as http:
        answer = await http.post(
            f"{judges.issuer}/token/revocation",
            data={"token": refresh_token, "client_id": client_id},
            auth=(client_id, known["client_secret"]),
        )
    assert answer.status_code == 200, answer.text


PRINTED = re.compile(r"Open (?P<url>\S+) on any device, and enter (?P<code>\S+)\n")


async def test_a_user_signs_in_on_another_device(judges: Judges, tmp_path: Path) -> None:
    configure(judges.server)
    settings = {"MCP_PROXY_CREDENTIALS_KEY": KEY, "PYTHONUNBUFFERED": "1"}
    command = launch(["login", "s", "--device"], tmp_path, settings, streams=(None, PIPE, None))
    assert command.stdout is not None
    with command.stdout as stdout:
        lines = [await asyncio.to_thread(stdout.readline) for _ in range(2)]
        printed = PRINTED.fullmatch(lines[-1].decode())
        assert printed is not None, lines
        await sign_in_device(printed["url"], printed["code"], ACCOUNT)
        assert await asyncio.to_thread(command.wait) == 0
    async with gateway() as service:
        assert (await whoami(service))["subject"] == ACCOUNT


async def callback_from(issuer: str, pending: PendingLogin) -> dict[str, str]:
    """Return the callback of a browser that was redirected to another issuer than the sign-in's."""
    url = URL(pending.url)
    elsewhere = URL(issuer).with_path(url.path).with_query(url.query)
    return answer_of(await sign_in(str(elsewhere), ACCOUNT))


AS_VICTIM = {"clientId": "victim", "clientSecret": SECRET}
"""A client registered at both issuers, as an attacker can arrange."""


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({}, "another issuer"), ({"iss": None}, "does not name its issuer")],
    ids=["honest", "silent"],
)
@pytest.mark.parametrize("begun_at", ["issuer", "attacker"])
async def test_a_code_of_another_issuer_is_not_sent(
    judges: Judges, begun_at: str, changes: dict[str, str | None], problem: str
) -> None:
    issuers = {"issuer": judges.issuer, "attacker": judges.attacker}
    trusted = issuers.pop(begun_at)
    (other,) = issuers.values()
    with running_sdk_auth_server(trusted, SCOPE) as server:
        auth = {**AS_VICTIM, "authorizationServer": trusted}
        configure(server, auth)
        async with opened("s") as found:
            pending = await begun(found)
            answer = await callback_from(other, pending) | changes
            with pytest.raises(OAuthRefused, match=problem):
                await found.sign_in.finish(pending, brought(answer))
    assert await stored_logins() == []
    codes = judges.record.codes() + judges.attacker_record.codes()
    assert answer["code"] not in codes


def brought(answer: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in answer.items() if value is not None}


async def test_a_code_of_an_attacker_with_a_false_issuer_connects_nothing(
    judges: Judges,
) -> None:
    auth = {**AS_VICTIM, "authorizationServer": judges.issuer}
    configure(judges.server, auth)
    async with opened("s") as found:
        pending = await begun(found)
        answer = {**await callback_from(judges.attacker, pending), "iss": judges.issuer}
        with pytest.raises(OAuthRefused, match="invalid_grant"):
            await found.sign_in.finish(pending, answer)
    assert await stored_logins() == []
    assert answer["code"] not in judges.attacker_record.codes()


async def test_two_replicas_renewing_a_login_together_send_its_refresh_token_once(
    judges: Judges,
) -> None:
    configure(judges.server)
    login = await log_in()
    async with gateway() as one, gateway() as two:
        for _ in range(3):
            judges.server.refused.add((await whoami(one))["token"])
            found = await asyncio.gather(*(whoami(it) for it in (one, two, one, two)))
            assert len({it["token"] for it in found}) == 1
    renewals = judges.record.token_requests(login.binding.client_id)[1:]
    sent = [it["request"]["refresh_token"] for it in renewals]
    assert len(sent) == len({*sent}) == 3
    assert {it["status"] for it in renewals} == {200}


async def test_a_logout_ends_the_grant_at_its_issuer(judges: Judges) -> None:
    configure(judges.server)
    login = await log_in()
    async with opened("s") as found:
        assert await found.sign_in.sign_out(found.owner, found.caller)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    async with httpx.AsyncClient() as http:
        answer = await http.post(
            f"{judges.issuer}/token",
            data=form,
            auth=(login.binding.client_id, login.client_secret or ""),
        )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert await stored_logins() == []
