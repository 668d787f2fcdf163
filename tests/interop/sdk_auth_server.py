"""A server with the SDK's ``mcp.server.auth``, which accepts an issuer's tokens for itself."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.mcp_servers.sdk_web import configured

PATH = "/mcp"


@dataclass
class SdkAuthServer:
    """The server; ``verify_token`` implements the SDK's protocol TokenVerifier."""

    issuer: str
    scope: str
    url: str
    resource: str = ""
    """The resource in its metadata and the required audience of tokens; empty means ``url``."""
    sent: list[str] = field(default_factory=list)
    """All received tokens, valid or not."""
    refused: set[str] = field(default_factory=set)
    """Tokens that it no longer accepts."""
    _keys: jwt.PyJWKSet | None = None

    @property
    def entry(self) -> Json:
        """Its entry in mcp.json, without ``auth``."""
        return {"transport": "streamable-http", "url": self.url}

    @property
    def claims(self) -> list[Json]:
        return [jwt.decode(it, options={"verify_signature": False}) for it in self.sent]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Verify a token's signature; the SDK checks its audience."""
        self.sent.append(token)
        if token in self.refused:
            return None
        if self._keys is None:
            async with httpx.AsyncClient() as http:
                answer = await http.get(f"{self.issuer}/jwks")
            self._keys = jwt.PyJWKSet.from_dict(answer.json())
        key = self._keys[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(
            token, key, ["RS256"], issuer=self.issuer, options={"verify_aud": False}
        )
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=claims["aud"],
            subject=claims["sub"],
        )

    def build(self) -> MCPServer:
        """Build the SDK's server with one tool."""
        settings = AuthSettings.model_validate(
            {
                "issuer_url": self.issuer,
                "resource_server_url": self.resource or self.url,
                "required_scopes": [self.scope],
                "validate_token_resource": True,
            }
        )
        server = MCPServer("protected", auth=settings, token_verifier=self)

        @server.tool()
        def whoami() -> dict[str, str | None]:
            """Return the subject of the call's token, and the token."""
            token = get_access_token()
            assert token is not None
            return {"subject": token.subject, "resource": token.resource, "token": token.token}

        return server


@contextmanager
def running_sdk_auth_server(
    issuer: str, scope: str, *, resource: str = ""
) -> Iterator[SdkAuthServer]:
    """Run the server on a free port, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
        server = SdkAuthServer(issuer, scope, url, resource)
        web = configured(server.build().streamable_http_app(streamable_http_path=PATH))
        thread = threading.Thread(target=web.run, args=([listening],), daemon=True)
        thread.start()
        try:
            _wait_until_started(web, thread)
            yield server
        finally:
            web.should_exit = True
            thread.join(BOUND_S)


def _wait_until_started(web: uvicorn.Server, thread: threading.Thread) -> None:
    ends = time.monotonic() + BOUND_S
    while not web.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < ends, "the server did not start in time"
        time.sleep(0.005)
