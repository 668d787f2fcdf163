"""The cookie that binds a sign-in to one browser."""

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.web.cookies import single_cookie

COOKIE = "__Host-mcp-sign-in"
"""Browsers take a ``__Host-`` cookie from this very host alone, for all paths, with Secure."""

MAX_AGE_S = 600

_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"


def cookie_of(request: Request) -> str | None:
    """Return the cookie's value; None if the browser sent none, or several."""
    return single_cookie(request, COOKIE)


def set_cookie(response: Response, value: str) -> None:
    """Send the cookie, which the browser keeps for one step."""
    _append(response, f"{COOKIE}={value}; Max-Age={MAX_AGE_S}; {_ATTRIBUTES}")


def drop_cookie(response: Response) -> None:
    """Remove the cookie from the browser: each is good for one step."""
    _append(response, f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}")


def _append(response: Response, value: str) -> None:
    response.headers.append("Set-Cookie", value)
