"""An issuer of tokens on loopback, and a server that accepts them alone."""

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from aiohttp import web

from tests.support.mcp_servers.raw_web import RawServer

Json = dict[str, Any]

ISSUER_METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


@dataclass
class Issued:
    """A token, and what it was issued for."""

    token: str
    form: dict[str, str]
    client_id: str


@dataclass
class Issuer:
    """Issues tokens to clients that know their secret; what it was sent is in ``requests``."""

    url: str = ""
    secrets: dict[str, str] = field(default_factory=lambda: {"proxy": "s3cret"})
    expires_in: int | None = 3600
    metadata: Json = field(default_factory=dict)
    """Replaces parts of its metadata."""
    instead: Callable[[web.Request], web.Response | None] = lambda _: None
    issued: list[Issued] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and form of each request."""
    pause: asyncio.Event = field(default_factory=asyncio.Event)
    """Token requests wait until it is set."""
    refused: set[str] = field(default_factory=set)
    """Tokens that are no longer good."""

    def __post_init__(self) -> None:
        self.pause.set()
        self._numbers = itertools.count(1)

    @property
    def token_requests(self) -> list[dict[str, str]]:
        return [form for path, form in self.requests if path == "/token"]

    def find(self, authorization: str | None) -> Issued | None:
        """Return the good token of an ``Authorization`` header."""
        token = (authorization or "").removeprefix("Bearer ")
        found = (it for it in self.issued if it.token == token and token not in self.refused)
        return next(found, None)

    async def show_metadata(self, _: web.Request) -> web.Response:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            **self.metadata,
        }
        return web.json_response({n: it for n, it in document.items() if it is not None})

    async def give_token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        client_id = self._client_of(request, form)
        if client_id is None:
            return web.json_response({"error": "invalid_client"}, status=401)
        await self.pause.wait()
        token = f"token-{next(self._numbers)}"
        self.issued.append(Issued(token, form, client_id))
        answer: Json = {"access_token": token, "token_type": "Bearer"}
        if form.get("requested_token_type") == ID_JAG:
            answer = {"access_token": token, "token_type": "N_A", "issued_token_type": ID_JAG}
        if self.expires_in is not None:
            answer["expires_in"] = self.expires_in
        return web.json_response(answer)

    def _client_of(self, request: web.Request, form: dict[str, str]) -> str | None:
        header = request.headers.get("Authorization", "")
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if header.startswith("Basic "):
            decoded = base64.b64decode(header[6:]).decode().partition(":")
            client_id, secret = unquote_plus(decoded[0]), unquote_plus(decoded[2])
        return client_id if self.secrets.get(client_id) == secret else None


@asynccontextmanager
async def running_issuer(**options: Any) -> AsyncIterator[Issuer]:
    """Serve an issuer on a free port."""
    issuer = Issuer(**options)

    @web.middleware
    async def recorded(request: web.Request, handler: Any) -> web.StreamResponse:
        form = await request.post() if request.method == "POST" else {}
        fields = {name: str(value) for name, value in form.items()}
        issuer.requests.append((request.path, fields))
        return issuer.instead(request) or await handler(request)

    app = web.Application(middlewares=[recorded])
    app.router.add_get(ISSUER_METADATA, issuer.show_metadata)
    app.router.add_post("/token", issuer.give_token)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield issuer
    finally:
        await runner.cleanup()


def protect(server: RawServer, issuer: Issuer, *, scope: str | None = None) -> list[str | None]:
    """Let a server accept the issuer's tokens alone; return the list of what it was sent.

    ``scope`` is what its challenge and its metadata name.
    """
    sent: list[str | None] = []
    origin = server.url.removesuffix("/mcp")
    metadata = {"resource": server.url, "authorization_servers": [issuer.url]}
    if scope is not None:
        metadata["scopes_supported"] = scope.split()

    def instead(request: web.Request) -> web.Response | None:
        if request.path.startswith(RESOURCE_METADATA):
            return web.json_response(metadata)
        authorization = request.headers.get("Authorization")
        sent.append(authorization)
        if issuer.find(authorization) is not None:
            return None
        challenge = f'Bearer resource_metadata="{origin}{RESOURCE_METADATA}/mcp"'
        if scope is not None:
            challenge += f', scope="{scope}"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    server.instead = instead
    return sent
