"""The cookie that names a session; only the console looks at it."""

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.web.cookies import single_cookie

_NAME = "mcp-console"


class SessionCookie:
    """The session's cookie of a console at ``public_url``, None where that is not known.

    Over https it is a ``__Host-`` cookie: browsers take one from this very host alone. Over plain
    HTTP, which loopback addresses have, no browser would keep that.
    """

    def __init__(self, public_url: str | None) -> None:
        is_secure = public_url is not None and public_url.lower().startswith("https:")
        self.name = f"__Host-{_NAME}" if is_secure else _NAME
        self._attributes = f"Path=/;{' Secure;' if is_secure else ''} HttpOnly; SameSite=Strict"

    def value_in(self, request: Request) -> str | None:
        """Return its value; None if the browser sent none, or several."""
        return single_cookie(request, self.name)

    def set_on(self, response: Response, value: str) -> None:
        """Have the browser keep it until it closes, or the session ends."""
        response.headers.append("Set-Cookie", f"{self.name}={value}; {self._attributes}")

    def drop_on(self, response: Response) -> None:
        """Have the browser forget it."""
        response.headers.append("Set-Cookie", f"{self.name}=; Max-Age=0; {self._attributes}")
