"""A gateway with sign-in pages on a socket, and a server that each user signs in to."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from tests.support.browser import Browser, next_address
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_endpoint import Served, serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.oauth_issuer import Issuer, protect, running_issuer
from tests.support.signing import AUDIENCE, key_set
from tests.support.tokens import KEY, bearer

KEYS = ("0123456789abcdef0123456789abcdef",)
PUBLIC_URL = "https://gateway.example/tools"
LOGINS = "/internal/mcp/logins"
TOOL = "s:headers"
ANN = {"tenant_id": "acme", "sub": "ann"}


@dataclass
class PageGateway:
    """A gateway, the issuer of its callers' tokens, and a server with its own issuer."""

    served: Served
    own: Issuer
    issuer: Issuer
    server: RawServer
    settings: Json
    browsers: list[Browser] = field(default_factory=list)

    @asynccontextmanager
    async def replica(self) -> AsyncIterator["PageGateway"]:
        """Serve a second replica with the same settings and files."""
        async with serving(**self.settings) as served:
            await served.service.discovered()
            yield replace(self, served=served)

    def token(self, **claims: object) -> str:
        """Return a token of a caller, of ann unless ``claims`` override it."""
        named: Json = {"iss": self.own.url, **ANN, **claims}
        return KEY.sign(**named)

    def browser(self) -> Browser:
        browser = Browser(PUBLIC_URL, self.served.url)
        self.browsers.append(browser)
        return browser

    def sign_in_as(self, **claims: object) -> None:
        """Set the user of the gateway's issuer for the following sign-ins."""
        self.own.claims = {**ANN, "aud": AUDIENCE, **claims}

    async def call(self, tool: str = TOOL, **claims: object) -> Json:
        response = await self.served.http.post(
            "/internal/mcp/execute",
            json={"tool_name": tool, "arguments": {}},
            headers=bearer(self.token(**claims)),
        )
        answer: Json = response.json()
        return answer

    async def address(self, tool: str = TOOL, **claims: object) -> str:
        answer = await self.call(tool, **claims)
        assert code(answer) == "LOGIN_REQUIRED", answer
        return str(answer["error"]["details"]["url"])

    async def post_login(
        self, *, scopes: Sequence[str] = (), server_id: str = "s", claims: Json | None = None
    ) -> httpx.Response:
        return await self.served.http.post(
            LOGINS,
            json={"server_id": server_id, "scopes": list(scopes)},
            headers=bearer(self.token(**(claims or {}))),
        )

    async def sign_in(self, browser: Browser, url: str) -> httpx.Response:
        page = await browser.open(url)
        going = await browser.press(page)
        return await browser.open(next_address(going))


@asynccontextmanager
async def page_gateway(
    *,
    scope: str | None = None,
    auth: Json | None = None,
    more: Callable[[Issuer, Issuer, RawServer], Json] = lambda *_: {},
    **settings: Any,
) -> AsyncIterator[PageGateway]:
    """Serve a gateway with pages; ``auth`` is added to its server's entry.

    ``more`` returns further entries for the callers' issuer, the server's issuer, and the server.
    """
    async with (
        running_issuer() as own,
        running_issuer() as issuer,
        running_raw(only=("headers",)) as server,
    ):
        protect(server, issuer, scope=scope)
        own.secrets, own.claims = {"pages": "s1gn-in"}, {**ANN, "aud": AUDIENCE}
        entry = {
            **server.entry,
            "isolation": "user",
            "auth": {
                "type": "oauth",
                "for": "user",
                "authorizationServer": issuer.url,
                "discovery": {
                    "grant": "client_credentials",
                    "clientId": "proxy",
                    "clientSecret": "s3cret",
                },
                **(auth or {}),
            },
        }
        entries = {"s": entry, **more(own, issuer, server)}
        config = Config(
            servers=entries,
            presets=[make_preset(tools=[(name, "headers") for name in entries])],
            agents=[make_agent("helper")],
            more={"defaultPresetId": "work"},
        )
        write_keys()
        used: Json = {
            "require_agent": False,
            "auth_mode": "jwt",
            "jwt_issuer": own.url,
            "jwt_audience": (AUDIENCE,),
            "jwt_jwks_file": "jwks.json",
            "jwt_operator_claim": "may",
            "public_url": PUBLIC_URL,
            "credentials_key": KEYS,
            "signin_client_id": "pages",
            "signin_client_secret": "s1gn-in",
            "signin_scopes": ("openid",),
            **settings,
        }
        async with serving(config=config, **used) as served:
            yield PageGateway(served, own, issuer, server, used)


def write_keys() -> None:
    """Write the keys that verify the callers' tokens."""
    Path("jwks.json").write_bytes(key_set(KEY))


def code(answer: Json) -> str:
    return "OK" if answer["status"] == "ok" else str(answer["error"]["code"])


def sent_token(answer: Json) -> str:
    assert answer["status"] == "ok", answer
    return str(answer["result"]["structured_content"]["authorization"]).removeprefix("Bearer ")
