import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from aiohttp import web

TOKEN = "secret-token"
"""The default accepted token."""
NEVER = math.inf
"""The expiry of a token without one."""

Tokens = Mapping[str, float] | Iterable[str]
"""Bearer tokens, or their expiries in seconds of the backend's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    path: str
    """As on the wire, with its query."""
    server_identifier: str
    headers: Mapping[str, str]

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")

    @property
    def subprotocols(self) -> tuple[str, ...]:
        offered = self.headers.get("sec-websocket-protocol", "")
        return tuple(each.strip() for each in offered.split(",") if each.strip())

    @property
    def token(self) -> str | None:
        scheme, _, token = (self.authorization or "").partition(" ")
        return token if scheme.lower() == "bearer" and token else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP status in place of a WebSocket."""

    status: int
    retry_after: str | None = None

    def response(self) -> web.Response:
        headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
        return web.Response(status=self.status, headers=headers)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Bytes in place of an HTTP response, for any token; then the connection is closed."""

    data: bytes

    def write(self, transport: asyncio.Transport) -> web.Response:
        """Write the bytes, and return a response that is discarded."""
        transport.write(self.data)
        transport.close()
        return web.Response()


class Manner(Enum):
    """The answers to handshakes with a valid token, other than a Refusal or a RawAnswer."""

    WELCOME = "welcome"
    NO_SUBPROTOCOL = "no subprotocol"
    """Accept, but choose no subprotocol."""
    SILENT = "silent"
    """Do not answer until the manner changes."""


Answer = Manner | Refusal | RawAnswer


def handshake_of(request: web.Request) -> Handshake:
    return Handshake(
        path=request.raw_path,
        server_identifier=request.match_info["server_identifier"],
        headers={name.lower(): value for name, value in request.headers.items()},
    )


def with_ends(tokens: Tokens) -> dict[str, float]:
    """Return the expiry of each token; tokens without a mapping do not expire."""
    return dict(tokens) if isinstance(tokens, Mapping) else dict.fromkeys(tokens, NEVER)
