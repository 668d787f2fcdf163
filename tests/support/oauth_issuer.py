"""A token issuer on loopback, and a server that accepts only its tokens."""

import asyncio
import base64
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from aiohttp import web
from yarl import URL

from tests.support.mcp_servers.raw_web import RawServer
from tests.support.tokens import KEY
from tests.support.web_app import serving_app

Json = dict[str, Any]

ISSUER_METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
_PERSONS = ("authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code")
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


@dataclass
class Issued:
    token: str
    form: dict[str, str]
    client_id: str


@dataclass
class Issuer:
    """Issues tokens to clients with the right secret; ``requests`` has the received requests."""

    url: str = ""
    secrets: dict[str, str] = field(default_factory=lambda: {"proxy": "s3cret"})
    expires_in: int | None = 3600
    metadata: Json = field(default_factory=dict)
    """Replaces parts of its metadata."""
    instead: Callable[[web.Request], web.Response | None] = lambda _: None
    issued: list[Issued] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    pause: asyncio.Event = field(default_factory=asyncio.Event)
    """Token requests wait until it is set."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    """The request of each unused code."""
    refreshes: dict[str, str] = field(default_factory=dict)
    """The unused refresh tokens; each is valid once."""
    registered: list[Json] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    answer: Json = field(default_factory=dict)
    """Replaces parts of the callback parameters."""
    device_pending: int = 0
    """Number of polls before the device code counts as entered."""
    refused: set[str] = field(default_factory=set)
    claims: Json | None = None
    """Claims of users who sign in; if set, access tokens are JWTs that a gateway accepts."""

    def __post_init__(self) -> None:
        self.pause.set()
        self._numbers = itertools.count(1)

    @property
    def token_requests(self) -> list[dict[str, str]]:
        return [form for path, form in self.requests if path == "/token"]

    def find(self, authorization: str | None) -> Issued | None:
        token = (authorization or "").removeprefix("Bearer ")
        found = (it for it in self.issued if it.token == token and token not in self.refused)
        return next(found, None)

    async def show_metadata(self, _: web.Request) -> web.Response:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "device_authorization_endpoint": f"{self.url}/device",
            "authorization_response_iss_parameter_supported": True,
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
        if (refused := self._grant(form)) is not None:
            return refused
        token = f"token-{next(self._numbers)}"
        if self.claims is not None:
            token = KEY.sign(**{"iss": self.url, "jti": token, **self.claims})
        self.issued.append(Issued(token, form, client_id))
        answer: Json = {"access_token": token, "token_type": "Bearer"}
        if form.get("requested_token_type") == ID_JAG:
            answer = {"access_token": token, "token_type": "N_A", "issued_token_type": ID_JAG}
        if self.expires_in is not None:
            answer["expires_in"] = self.expires_in
        if form["grant_type"] in _PERSONS:
            answer |= {"refresh_token": f"refresh-{token}", "scope": form.get("scope", "")}
            self.refreshes[f"refresh-{token}"] = token
        return web.json_response(answer)

    async def authorize(self, request: web.Request) -> web.Response:
        """Redirect the browser with a code, as after a sign-in."""
        query = dict(request.query)
        code = f"code-{next(self._numbers)}"
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.url, **self.answer}
        location = URL(query["redirect_uri"]).update_query(
            {name: value for name, value in answer.items() if value is not None}
        )
        return web.Response(status=302, headers={"Location": str(location)})

    async def register(self, request: web.Request) -> web.Response:
        content = await request.json()
        self.registered.append(content)
        client_id = f"client-{next(self._numbers)}"
        self.secrets[client_id] = f"secret of {client_id}"
        answer = {**content, "client_id": client_id, "client_secret": self.secrets[client_id]}
        return web.json_response(answer, status=201)

    async def revoke(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.revoked.append(str(form["token"]))
        return web.Response()

    async def give_device_code(self, _: web.Request) -> web.Response:
        answer = {
            "device_code": "device-1",
            "user_code": "ABCD-EFGH",
            "verification_uri": f"{self.url}/activate",
            "expires_in": 60,
            "interval": 1,
        }
        return web.json_response(answer)

    def _grant(self, form: dict[str, str]) -> web.Response | None:
        """Check grants that need a user or a login; None is valid."""
        match form.get("grant_type"):
            case "authorization_code":
                requested = self.codes.pop(form.get("code", ""), None)
                digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                if requested is None or requested["code_challenge"] != challenge:
                    return web.json_response({"error": "invalid_grant"}, status=400)
                form.setdefault("scope", requested.get("scope", ""))
            case "refresh_token":
                if self.refreshes.pop(form["refresh_token"], None) is None:
                    return web.json_response({"error": "invalid_grant"}, status=400)
            case "urn:ietf:params:oauth:grant-type:device_code" if self.device_pending:
                self.device_pending -= 1
                return web.json_response({"error": "authorization_pending"}, status=400)
        return None

    def _client_of(self, request: web.Request, form: dict[str, str]) -> str | None:
        header = request.headers.get("Authorization", "")
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if header.startswith("Basic "):
            decoded = base64.b64decode(header[6:]).decode().partition(":")
            client_id, secret = unquote_plus(decoded[0]), unquote_plus(decoded[2])
        return client_id if self.secrets.get(client_id) == secret else None


@asynccontextmanager
async def running_issuer(**options: Any) -> AsyncIterator[Issuer]:
    issuer = Issuer(**options)

    @web.middleware
    async def recorded(request: web.Request, handler: Any) -> web.StreamResponse:
        is_form = request.content_type == "application/x-www-form-urlencoded"
        form = await request.post() if is_form else {}
        fields = {name: str(value) for name, value in form.items()}
        issuer.requests.append((request.path, fields))
        return issuer.instead(request) or await handler(request)

    app = web.Application(middlewares=[recorded])
    app.router.add_get(ISSUER_METADATA, issuer.show_metadata)
    app.router.add_get("/authorize", issuer.authorize)
    app.router.add_post("/register", issuer.register)
    app.router.add_post("/revoke", issuer.revoke)
    app.router.add_post("/device", issuer.give_device_code)
    app.router.add_post("/token", issuer.give_token)
    async with serving_app(app) as url:
        issuer.url = url
        yield issuer


def protect(server: RawServer, issuer: Issuer, *, scope: str | None = None) -> list[str | None]:
    """Refuse all tokens except the issuer's at a server; return the list of received tokens.

    ``scope`` is named in its challenge and its metadata.
    """
    sent: list[str | None] = []
    address = server.url.replace("ws://", "http://")
    origin = address.removesuffix("/mcp")
    metadata = {"resource": address, "authorization_servers": [issuer.url]}
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
