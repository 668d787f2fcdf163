"""A user signs in while the gateway is killed at each step."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.login_pages.page_gateway import ANN, KEYS, PUBLIC_URL, TOOL, code
from tests.support.bounds import BOUND_S
from tests.support.browser import Browser, next_address
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.oauth_issuer import Issuer, protect, running_issuer
from tests.support.program import UNLIMITED, Program, started
from tests.support.redis_server import running_redis
from tests.support.service import EXECUTE, eventually
from tests.support.signing import AUDIENCE, key_set
from tests.support.tokens import KEY, bearer

pytestmark = [pytest.mark.e2e]


@dataclass
class Restarted:
    """A gateway that is killed and restarted, with one browser of ann."""

    folder: Path
    settings: dict[str, str]
    own: Issuer
    issuer: Issuer
    browser: Browser
    programs: ExitStack
    program: Program | None = None

    async def restart(self) -> None:
        self.kill()
        self.program = await asyncio.to_thread(
            self.programs.enter_context, started(self.folder, self.settings)
        )
        self.browser.url = f"http://127.0.0.1:{self.program.port}"

    def kill(self) -> None:
        if self.program is not None:
            self.program.process.kill()

    async def call(self) -> Json:
        claims: Json = {"iss": self.own.url, **ANN}
        token = KEY.sign(**claims)
        body = {"tool_name": TOOL, "arguments": {}}
        async with httpx.AsyncClient(base_url=self.browser.url, timeout=BOUND_S) as http:
            answer: Json = (await http.post(EXECUTE, json=body, headers=bearer(token))).json()
        return answer

    async def address(self) -> str:
        answer = await self.call()
        assert code(answer) == "LOGIN_REQUIRED", answer
        return str(answer["error"]["details"]["url"])


@asynccontextmanager
async def restarted(folder: Path) -> AsyncIterator[Restarted]:
    """Run a gateway that stores pending sign-ins in Redis, with a server that requires them."""
    (folder / "jwks.json").write_bytes(key_set(KEY))
    discovery = {"grant": "client_credentials", "clientId": "proxy", "clientSecret": "s3cret"}
    with ExitStack() as programs:
        redis = programs.enter_context(running_redis(folder))
        async with (
            running_issuer() as own,
            running_issuer() as issuer,
            running_raw(only=("headers",)) as server,
        ):
            protect(server, issuer)
            own.secrets, own.claims = {"pages": "s1gn-in"}, {**ANN, "aud": AUDIENCE}
            auth = {"type": "oauth", "for": "user", "authorizationServer": issuer.url}
            entry = {
                **server.entry,
                "isolation": "user",
                "auth": {**auth, "discovery": discovery},
            }
            config = Config(servers={"s": entry}, presets=[make_preset(tools=[("s", "headers")])])
            config.write(folder / "config")
            settings = {
                **UNLIMITED,
                "MCP_PROXY_AUTH_MODE": "jwt",
                "MCP_PROXY_JWT_ISSUER": own.url,
                "MCP_PROXY_JWT_AUDIENCE": AUDIENCE,
                "MCP_PROXY_JWT_JWKS_FILE": str(folder / "jwks.json"),
                "MCP_PROXY_PUBLIC_URL": PUBLIC_URL,
                "MCP_PROXY_CREDENTIALS_KEY": KEYS[0],
                "MCP_PROXY_SIGNIN_CLIENT_ID": "pages",
                "MCP_PROXY_SIGNIN_CLIENT_SECRET": "s1gn-in",
                "MCP_PROXY_STATE_URL": redis.url,
                "MCP_PROXY_REQUIRE_AGENT": "false",
            }
            found = Restarted(folder, settings, own, issuer, Browser(PUBLIC_URL, ""), programs)
            await found.restart()
            yield found
            found.kill()


async def test_a_sign_in_continues_at_another_gateway_until_its_code_is_sent(
    tmp_path: Path,
) -> None:
    async with restarted(tmp_path) as gateway:
        browser, stranger = gateway.browser, Browser("", "")
        first = await gateway.address()
        await gateway.restart()
        sent = await browser.open(first, stop_at=gateway.own.url)
        await gateway.restart()
        back = await stranger.send("GET", sent.headers["location"])
        page = await browser.open(back.headers["location"])
        await gateway.restart()
        going = await browser.press(page)
        await gateway.restart()

        back = await stranger.send("GET", next_address(going))
        gateway.issuer.pause.clear()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(is_cut_off(browser, back.headers["location"]))
            await eventually(lambda: has_code(gateway.issuer))
            await gateway.restart()
        gateway.issuer.pause.set()

        second = await gateway.address()
        assert second != first
        assert (await browser.send("GET", first)).status_code == 404
        going = await browser.press(await browser.open(second))
        assert "<h1>Connected" in (await browser.open(next_address(going))).text
        await gateway.restart()
        assert code(await gateway.call()) == "OK"
    codes = [it["code"] for it in gateway.issuer.token_requests if "code" in it]
    assert len(codes) == len({*codes}) == 2


async def is_cut_off(browser: Browser, address: str) -> None:
    with pytest.raises(httpx.TransportError):
        await browser.send("GET", address)


async def has_code(issuer: Issuer) -> bool:
    return any("code" in it for it in issuer.token_requests)
