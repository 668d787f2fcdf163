"""The cookies of a session, and of what its browser is shown; only the console looks at them."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.console.sessions import Session
from mcp_tools_proxy.web.cookies import single_cookie

_NAME = "mcp-console"

TRIP_S = 600
"""Seconds that a browser may take at the issuer."""

MESSAGE_S = 30
"""Seconds until a message that no page has shown is forgotten."""

MAX_MESSAGE_CHARS = 300
_SEAL_CHARS = 64


class SessionCookie:
    """The session's cookie of a console at ``public_url``, None where that is not known.

    Over https it is a ``__Host-`` cookie: browsers take one from this very host alone. Over plain
    HTTP, which loopback addresses have, no browser would keep that.
    """

    def __init__(self, public_url: str | None) -> None:
        is_secure = public_url is not None and public_url.lower().startswith("https:")
        self.name = f"__Host-{_NAME}" if is_secure else _NAME
        self._message_name = f"{self.name}-message"
        self._trip_name = f"{self.name}-sign-in"
        self._wanted_name = f"{self.name}-wanted"
        common = f"Path=/;{' Secure;' if is_secure else ''} HttpOnly"
        self._attributes = f"{common}; SameSite=Strict"
        self._trip_attributes = f"{common}; SameSite=Lax"  # it has to come back from another site

    def value_in(self, request: Request) -> str | None:
        """Return its value; None if the browser sent none, or several."""
        return single_cookie(request, self.name)

    def set_on(self, response: Response, value: str) -> None:
        """Set it, until the browser closes or the session ends."""
        response.headers.append("Set-Cookie", f"{self.name}={value}; {self._attributes}")

    def drop_on(self, response: Response) -> None:
        """Remove it from the browser."""
        self._set(response, self.name, "", 0, self._attributes)

    def set_message_on(self, response: Response, session: Session, text: str) -> None:
        """Set what the next page of the session shows once."""
        content = text[:MAX_MESSAGE_CHARS].encode()
        value = f"{session.seal_of(content)}{_encoded(content)}"
        self._set(response, self._message_name, value, MESSAGE_S, self._attributes)

    def message_in(self, request: Request, session: Session) -> str | None:
        """Return what was done in this session; None for what anybody else has planted."""
        value = single_cookie(request, self._message_name) or ""
        content = _decoded(value[_SEAL_CHARS:])
        if not hmac.compare_digest(session.seal_of(content), value[:_SEAL_CHARS]):
            return None
        return content.decode()

    def drop_message_on(self, response: Response) -> None:
        """Remove it: it is shown once."""
        self._set(response, self._message_name, "", 0, self._attributes)

    def trip_in(self, request: Request) -> str | None:
        """Return what a browser brings back from the issuer."""
        return single_cookie(request, self._trip_name)

    def wanted_in(self, request: Request) -> str:
        """Return the address that was wanted before the trip, as the browser says; "" for none."""
        value = single_cookie(request, self._wanted_name) or ""
        return _decoded(value).decode(errors="replace")

    def set_trip_on(self, response: Response, value: str, wanted: str) -> None:
        """Set what the browser has to bring back from the issuer, and where it goes on then."""
        self._set(response, self._trip_name, value, TRIP_S, self._trip_attributes)
        if wanted:
            address = _encoded(wanted.encode())
            self._set(response, self._wanted_name, address, TRIP_S, self._trip_attributes)

    def drop_trip_on(self, response: Response) -> None:
        """Remove that: it is good for one trip."""
        for name in (self._trip_name, self._wanted_name):
            self._set(response, name, "", 0, self._trip_attributes)

    @staticmethod
    def _set(response: Response, name: str, value: str, max_age_s: int, attributes: str) -> None:
        cookie = f"{name}={value}; Max-Age={max_age_s}; {attributes}"
        response.headers.append("Set-Cookie", cookie)


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Return the bytes of a cookie's text; none of what is no such text."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
