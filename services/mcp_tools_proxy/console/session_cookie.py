"""The cookie that names a session; only the console looks at it."""

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.web.cookies import single_cookie

_NAME = "mcp-console"

TRIP_S = 600
"""Seconds that a browser may take at the issuer."""


class SessionCookie:
    """The session's cookie of a console at ``public_url``, None where that is not known.

    Over https it is a ``__Host-`` cookie: browsers take one from this very host alone. Over plain
    HTTP, which loopback addresses have, no browser would keep that.
    """

    def __init__(self, public_url: str | None) -> None:
        is_secure = public_url is not None and public_url.lower().startswith("https:")
        self.name = f"__Host-{_NAME}" if is_secure else _NAME
        self._trip_name = f"{self.name}-sign-in"
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
        response.headers.append("Set-Cookie", f"{self.name}=; Max-Age=0; {self._attributes}")

    def trip_in(self, request: Request) -> str | None:
        """Return what a browser brings back from the issuer."""
        return single_cookie(request, self._trip_name)

    def set_trip_on(self, response: Response, value: str) -> None:
        """Set what the browser has to bring back from the issuer."""
        cookie = f"{self._trip_name}={value}; Max-Age={TRIP_S}; {self._trip_attributes}"
        response.headers.append("Set-Cookie", cookie)

    def drop_trip_on(self, response: Response) -> None:
        """Remove that: it is good for one trip."""
        cookie = f"{self._trip_name}=; Max-Age=0; {self._trip_attributes}"
        response.headers.append("Set-Cookie", cookie)
