"""The commands login, logins and logout, and the gateway that uses the login."""

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from subprocess import DEVNULL

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.held_port import free_port
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.oauth_issuer import Issuer, protect, running_issuer
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.program_launch import launch, run
from tests.support.service import EXECUTE, SERVERS, eventually, request_of

pytestmark = [pytest.mark.e2e]

KEY = "0123456789abcdef0123456789abcdef"
NEW_KEY = KEY[::-1]
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
INTRUDED = """
import sys, urllib.error, urllib.parse, urllib.request
query = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)
back = query["redirect_uri"][0]
found = []
for address in (back + "?state=x&code=y", back + "/elsewhere"):
    try:
        urllib.request.urlopen(address)
    except urllib.error.HTTPError as error:
        found.append(str(error.code))
open("intruder", "w").write(" ".join(found))
urllib.request.urlopen(sys.argv[1]).read()
"""
"""A browser where another page sends answers first."""

WAITING = "import sys; open('opened', 'w').write(sys.argv[1])"
"""A browser without user action."""


@dataclass
class Place:
    """A folder with a configuration, its server and its issuer."""

    folder: Path
    server: RawServer
    issuer: Issuer
    environment: dict[str, str]

    def run(self, *words: str) -> tuple[int, str, str]:
        return run(self.folder, *words, **self.environment)  # type: ignore[arg-type]  # texts

    def use_browser(self, browser: str) -> None:
        (self.folder / "browser.py").write_text(browser)


@asynccontextmanager
async def place(folder: Path, *, browser: str = BROWSER) -> AsyncIterator[Place]:
    program = folder / "browser.py"
    program.write_text(browser)
    async with running_issuer() as issuer, running_raw(only=("headers",)) as server:
        protect(server, issuer)
        entry: Json = {**server.entry, "auth": {"type": "oauth"}}
        config = Config(
            servers={"s": entry},
            presets=[make_preset(tools=[("s", "headers")])],
            more={"defaultPresetId": "work"},
        )
        config.write(folder / "config")
        environment = {
            **UNLIMITED,
            "MCP_PROXY_CREDENTIALS_KEY": KEY,
            "BROWSER": f"{shlex.join([sys.executable, str(program)])} %s",
        }
        yield Place(folder, server, issuer, environment)


def state_of(program: Program) -> str:
    return str(program.http.get(SERVERS).json()["servers"][0]["state"])


async def test_a_gateway_uses_a_login_created_at_runtime(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        await asyncio.to_thread(sign_in_and_out, there)
    assert len(there.issuer.revoked) == 2


def sign_in_and_out(there: Place) -> None:
    with started(there.folder, there.environment) as program:
        wait_until(lambda: state_of(program) == "login_required")
        code, out, err = there.run("login", "s")
        assert (code, err, out.splitlines()[-1]) == (0, "", "signed in to s")
        wait_until(lambda: state_of(program) == "ready")
        answer = program.http.post(EXECUTE, json=request_of("s:headers")).json()
        assert answer["status"] == "ok"
    printed = (there.folder / "service.log").read_text() + out
    there.environment["MCP_PROXY_CREDENTIALS_KEY"] = f"{NEW_KEY},{KEY}"
    for words, key in ((("logins",), "older"), (("logins", "--reseal"), "first")):
        code, out, err = there.run(*words, "--json")
        printed += out + err
        (shown,) = json.loads(out)["logins"]
        assert (code, shown["server_id"], shown["for"]) == (0, "s", "deployment")
        assert shown["key"] == key
    assert [it for it in (NEW_KEY, *secrets_of(there.issuer)) if it in printed] == []
    there.environment["MCP_PROXY_CREDENTIALS_KEY"] = NEW_KEY
    assert there.run("logout", "s") == (0, "signed out of s\n", "")
    code, out, err = there.run("logout", "s")
    assert (code, out) == (1, "")
    assert err.endswith("no such login to s; list the logins with: mcp-tools-proxy logins\n")
    assert there.run("logins") == (
        0,
        "",
        "no logins of the deployment; --tenant lists those of a tenant\n",
    )


async def test_a_login_with_a_lost_key_can_only_be_forgotten(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        assert (await asyncio.to_thread(there.run, "login", "s"))[0] == 0
        there.environment["MCP_PROXY_CREDENTIALS_KEY"] = NEW_KEY
        code, out, err = await asyncio.to_thread(there.run, "logins", "--reseal")
        assert (code, out) == (1, "s\tdeployment\t\t\tcannot be decrypted\t-\n")
        assert "1 login could not be re-encrypted" in err
        code, out, err = await asyncio.to_thread(there.run, "logout", "s")
    assert (code, out) == (0, "signed out of s\n")
    assert "not revoked at its issuer: the login cannot be decrypted" in err
    assert there.issuer.revoked == []


def secrets_of(issuer: Issuer) -> set[str]:
    names = ("code", "code_verifier", "device_code", "client_secret", "refresh_token", "token")
    forms = [form for _, form in issuer.requests]
    found = {form[name] for form in forms for name in names if name in form}
    tokens = {it.token for it in issuer.issued}
    return {KEY, *found, *tokens, *issuer.refreshes, *issuer.secrets.values()}


async def test_a_sign_in_on_another_device_needs_no_browser(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        there.issuer.metadata = {
            "authorization_endpoint": None,
            "code_challenge_methods_supported": None,
        }
        there.issuer.device_pending = 1
        code, out, err = await asyncio.to_thread(there.run, "login", "s", "--device")
        assert (code, err) == (0, "")
        assert "ABCD-EFGH" in out
        assert "device-1" in secrets_of(there.issuer)
        assert [it for it in secrets_of(there.issuer) if it in out + err] == []
    (registered,) = there.issuer.registered
    assert registered["grant_types"] == [DEVICE_CODE, "refresh_token"]


async def test_a_killed_sign_in_leaves_nothing_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    async with place(tmp_path, browser=WAITING) as there:
        await kill_login(there, (tmp_path / "opened").exists)

        there.use_browser(BROWSER)
        there.issuer.pause.clear()
        await kill_login(there, lambda: bool(there.issuer.token_requests))
        there.issuer.pause.set()

        assert await asyncio.to_thread(there.run, "logins", "--json") == (0, '{"logins": []}\n', "")
        assert (await asyncio.to_thread(there.run, "login", "s"))[0] == 0
        assert '"server_id": "s"' in (await asyncio.to_thread(there.run, "logins", "--json"))[1]
    codes = [it["code"] for it in there.issuer.token_requests]
    assert len(codes) == len({*codes}) == 2


async def kill_login(there: Place, has_come: Callable[[], bool]) -> None:
    """Kill the command when it waits."""

    async def is_there() -> bool:
        return has_come()

    with (there.folder / "killed.txt").open("wb") as out:
        streams = (DEVNULL, out.fileno(), out.fileno())
        command = launch(["login", "s"], there.folder, there.environment, streams=streams)
    try:
        await eventually(is_there)
    finally:
        command.kill()
    assert await asyncio.to_thread(command.wait) == -SIGKILL


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("login", "none"), "is not in mcp.json"),
        (("login", "s", "--tenant", "acme"), "leave out --tenant"),
        (("login", "s", "--user", "ann"), "leave out --user"),
    ],
)
async def test_an_invalid_sign_in_is_one_line(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    async with place(tmp_path) as there:
        code, out, err = await asyncio.to_thread(there.run, *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert problem in err


@pytest.mark.parametrize("words", [("login", "s"), ("logins",)])
async def test_without_a_credentials_key_the_commands_are_refused(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    async with place(tmp_path) as there:
        there.environment = {"MCP_PROXY_PORT": str(free_port())}
        code, _, err = await asyncio.to_thread(there.run, *words)
    assert code == 2
    assert "MCP_PROXY_CREDENTIALS_KEY" in err


async def test_a_wrong_answer_does_not_end_the_wait(tmp_path: Path) -> None:
    """Another page on this machine can send anything to the address."""
    async with place(tmp_path, browser=INTRUDED) as there:
        code, out, err = await asyncio.to_thread(there.run, "login", "s")
    assert (code, err, out.splitlines()[-1]) == (0, "", "signed in to s")
    assert (tmp_path / "intruder").read_text() == "400 404"
