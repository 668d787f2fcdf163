"""MCP clients that sign in at a third-party issuer, and then use the gateway."""

import asyncio
import json
import os
import pty
import re
import shlex
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import TextContent
from pydantic import AnyUrl

from tests.interop.conformance_suite import MODULES, node22
from tests.interop.oidc_provider import running_issuer, sign_in
from tests.mcp_server.clients.client_report import ECHO, EXPECTED, SECTION, Json, report, request
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset, write_json
from tests.support.held_port import free_port
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, started, wait_until
from tests.support.program_launch import launch, run
from tests.support.service import EXECUTE, SERVERS, request_of

HERE = Path(__file__).parent
INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
NAVIGATE = re.compile(r"navigate to: (?P<url>http\S+)")
ALONE = {
    "PATH": os.defpath,
    "HOME": ".",
    "MCP_INSPECTOR_SECRET_STORE": "memory",
    "MCP_INSPECTOR_OAUTH_STATE_PATH": "./oauth.json",
}
"""An environment that keeps the Inspector away from the user's files and keychain."""
ACCOUNT = "ada@tenant_1"
SCOPE = "tools"
ADDRESS = "address.txt"
CALLBACK = "http://127.0.0.1:1/callback"
"""Nothing listens there: the tests read the browser's target from the redirect."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a gateway that refers MCP clients to the issuer, and yield its MCP address."""
    folder = tmp_path_factory.mktemp("gateway")
    preset = make_preset(tools=[("s1", "echo")])
    Config(servers={"s1": raw_entry(only=["echo"])}, presets=[preset]).write(folder / "config")
    port = free_port()
    public_url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        issuer = stack.enter_context(running_issuer(scopes=[SCOPE]))
        settings = {
            **UNLIMITED,
            "MCP_PROXY_AUTH_MODE": "jwt",
            "MCP_PROXY_JWT_ISSUER": issuer,
            "MCP_PROXY_JWT_JWKS_URL": f"{issuer}/jwks",
            "MCP_PROXY_JWT_AUDIENCE": f"{public_url}/mcp",
            "MCP_PROXY_JWT_SCOPES": SCOPE,
            "MCP_PROXY_PUBLIC_URL": public_url,
        }
        program = stack.enter_context(started(folder, settings, port=port))
        wait_until(lambda: program.http.get("/health/ready").json()["status"] == "ready")
        yield f"{public_url}/mcp"


class _Kept:
    """Storage of the SDK's provider for one test."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def sdk_provider(url: str, account: str) -> OAuthClientProvider:
    """Return the SDK's provider, with a browser that signs in as an account."""
    reached: list[str] = []

    async def open_browser(address: str) -> None:
        reached.append(await sign_in(address, account))

    async def redirected() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(reached.pop()).query)
        return AuthorizationCodeResult.model_validate({name: it[0] for name, it in query.items()})

    metadata = OAuthClientMetadata(
        client_name="python", redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none"
    )
    return OAuthClientProvider(url, metadata, _Kept(), open_browser, redirected)


@asynccontextmanager
async def signed_in(url: str, account: str) -> AsyncIterator[Client]:
    """Connect the SDK's client for Python."""
    async with (
        httpx2.AsyncClient(auth=sdk_provider(url, account), timeout=BOUND_S) as http,
        Client(streamable_http_client(url, http_client=http), cache=None) as client,
    ):
        yield client


async def by_python(url: str) -> Json:
    """Use the gateway through the SDK's client for Python."""
    async with signed_in(url, ACCOUNT) as client:
        tools = (await client.list_tools()).tools
        section = await client.call_tool(*SECTION)
        echo = await client.call_tool(*ECHO)
    assert isinstance(section.structured_content, dict)
    assert isinstance(echo.structured_content, dict)
    names = [tool.name for tool in tools]
    return report(names, section.structured_content, echo.structured_content)


async def by_typescript(url: str) -> Json:
    """Use the gateway through the SDK's client for TypeScript."""
    command: list[str | Path] = [
        node22(),
        HERE / "client_sign_in.mjs",
        json.dumps({"url": url}),
        request(),
    ]
    program = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert program.stdout is not None
    address = (await program.stdout.readline()).decode().strip()
    reached = await sign_in(address, ACCOUNT) if address else ""
    printed, complained = await program.communicate(f"{reached}\n".encode())
    assert program.returncode == 0, complained.decode()
    seen: Json = json.loads(printed)
    return seen


async def by_inspector(url: str) -> Json:
    """Use the gateway through the Inspector's command line, which signs in at its first command."""
    callback = f"http://127.0.0.1:{free_port()}/oauth/callback"
    known = {"gateway": {"type": "streamable-http", "url": url}}
    write_json(Path("clients.json"), {"mcpServers": known})
    named = ["--config", "clients.json", "--server", "gateway", "--callback-url", callback]

    async def run(method: str, *words: str) -> Json:
        options = [str(INSPECTOR), "--cli", *named, "--method", method, *words]
        with terminal() as stdin:  # without one it does not sign in; stderr's would open a browser
            program = await asyncio.create_subprocess_exec(
                node22(), *options, env=ALONE, stdin=stdin, stdout=PIPE, stderr=PIPE
            )
            assert program.stdout is not None
            assert program.stderr is not None
            complained = []
            async for line in program.stderr:
                complained.append(line.decode())
                if found := NAVIGATE.search(complained[-1]):
                    await visit(await sign_in(found["url"], ACCOUNT))
            printed = await program.stdout.read()
            assert await program.wait() == 0, complained
        answer: Json = json.loads(printed)
        return answer

    async def call(name: str, arguments: Mapping[str, str]) -> Json:
        given = [f"{key}={value}" for key, value in arguments.items()]
        answer = await run("tools/call", "--tool-name", name, "--tool-arg", *given)
        structured: Json = answer["structuredContent"]
        return structured

    names = [tool["name"] for tool in (await run("tools/list"))["tools"]]
    return report(names, await call(*SECTION), await call(*ECHO))


@contextmanager
def terminal() -> Iterator[int]:
    """Yield the descriptor of a terminal without input."""
    ours, theirs = pty.openpty()
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


async def visit(url: str) -> None:
    async with httpx2.AsyncClient(timeout=BOUND_S) as browser:
        (await browser.get(url)).raise_for_status()


CLIENTS: dict[str, Callable[[str], Awaitable[Json]]] = {
    "python": by_python,
    "typescript": by_typescript,
    "inspector": by_inspector,
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_signs_in_automatically(gateway: str, client: str) -> None:
    assert await CLIENTS[client](gateway) == EXPECTED


async def test_a_document_of_another_tenant_is_denied(gateway: str) -> None:
    async with signed_in(gateway, "bob@tenant_2") as client:
        result = await client.call_tool(*SECTION)
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert (result.is_error, block.text.partition(":")[0]) == (True, "ACCESS_DENIED")


SERVER = "other"
TOOL = "list_available_tools"


def client_gateway(folder: Path, url: str) -> dict[str, str]:
    """Write the configuration of a gateway that is a client of the other; return its settings."""
    entry = {"transport": "streamable-http", "url": url, "auth": {"type": "oauth"}}
    preset = make_preset(tools=[(SERVER, TOOL)])
    Config(servers={SERVER: entry}, presets=[preset]).write(folder / "config")
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    return {
        **UNLIMITED,
        "MCP_PROXY_CREDENTIALS_KEY": "only in tests " * 3,
        "BROWSER": f'{shlex.quote(sys.executable)} -c "{write}" {folder / ADDRESS} %s &',
    }


def log_in(folder: Path, settings: Mapping[str, str]) -> int:
    """Sign in by the command, with a browser; return its exit code."""
    file = folder / ADDRESS
    with (folder / "login.txt").open("wb") as out:
        streams = (DEVNULL, out.fileno(), out.fileno())
        command = launch(["login", SERVER], folder, settings, streams=streams)
    try:
        wait_until(lambda: command.poll() is not None or (file.exists() and file.read_text() != ""))
        asyncio.run(visit_after_sign_in(file.read_text()))
        return command.wait()
    finally:
        command.kill()


async def visit_after_sign_in(address: str) -> None:
    """Act as a browser and its user."""
    await visit(await sign_in(address, ACCOUNT))


def test_a_gateway_is_a_client_of_another_until_its_login_is_removed(
    gateway: str, tmp_path: Path
) -> None:
    settings = client_gateway(tmp_path, gateway)
    with started(tmp_path, settings) as program:

        def state() -> str:
            return str(program.http.get(SERVERS).json()["servers"][0]["state"])

        def call() -> str:
            answer = program.http.post(EXECUTE, json=request_of(f"{SERVER}:{TOOL}")).json()
            return str(answer.get("error", {"code": "OK"})["code"])

        wait_until(lambda: state() == "login_required")
        assert log_in(tmp_path, settings) == 0
        wait_until(lambda: state() == "ready")
        assert call() == "OK"
        assert run(tmp_path, "logout", SERVER, fresh=False, **settings)[0] == 0
        wait_until(lambda: call() == "LOGIN_REQUIRED")
