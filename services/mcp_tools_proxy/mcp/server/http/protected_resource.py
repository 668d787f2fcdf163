"""OAuth protected resource metadata: where MCP clients get tokens for the gateway."""

from collections.abc import Iterable, Sequence

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_tools_proxy.domain.fast_dataclass import dataclass

METADATA_PATH = "/.well-known/oauth-protected-resource"
"""RFC 9728 §3; the path of a resource can follow."""

MAX_AGE_S = 300
"""Cache time of the metadata for clients, in seconds."""

_CHALLENGE = b"www-authenticate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """Metadata that MCP clients need to sign in.

    All addresses below ``/mcp`` are one ``resource``: agents are not audiences, and separate
    answers would reveal which agents exist. Clients sign in at ``issuer``, for ``scopes``.
    """

    resource: str
    issuer: str
    scopes: Sequence[str] = ()

    @property
    def metadata(self) -> dict[str, object]:
        """The metadata document of RFC 9728 §2."""
        document: dict[str, object] = {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }
        return {**document, "scopes_supported": list(self.scopes)} if self.scopes else document

    @property
    def challenge(self) -> str:
        """Parameters of a challenge that point to the metadata (RFC 9728 §5.1, RFC 6750 §3)."""
        url = f"{self.resource.removesuffix('/mcp')}{METADATA_PATH}/mcp"
        parameters = f'resource_metadata="{url}"'
        return f'{parameters}, scope="{" ".join(self.scopes)}"' if self.scopes else parameters

    def routes(self, paths: Iterable[str]) -> Sequence[Route]:
        """Return the routes of the metadata: one for the server, and one for each of its paths."""
        body = to_json(self.metadata)
        headers = {"Cache-Control": f"public, max-age={MAX_AGE_S}"}

        async def show(_: Request) -> Response:
            return Response(body, headers=headers, media_type="application/json")

        return [Route(f"{METADATA_PATH}{path}", show, methods=["GET"]) for path in ("", *paths)]


class SignInChallenge:
    """Adds ``parameters`` to the challenge of every 401 below ``/mcp``, of any origin.

    Clients of the SDKs and the Inspector use them to start the sign-in.
    """

    def __init__(self, app: ASGIApp, *, parameters: str) -> None:
        self._app = app
        self._parameters = parameters.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or not _is_mcp(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def send_with_challenge(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                headers = [self._extended(*header) for header in message["headers"]]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_with_challenge)

    def _extended(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        if name != _CHALLENGE:
            return name, value
        separator = b", " if b"=" in value else b" "
        return name, value + separator + self._parameters


def _is_mcp(path: str) -> bool:
    return path == "/mcp" or path.startswith("/mcp/")
