"""The cookie that binds a sign-in to one browser."""

import re

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "__Host-mcp-sign-in"
"""Browsers take a ``__Host-`` cookie from this very host alone, for all paths, with Secure."""

MAX_AGE_S = 600

_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"


_PAIR = re.compile(rf"[ \t]*{COOKIE}=([A-Za-z0-9_-]+)[ \t]*")


def cookie_of(request: Request) -> str | None:
    """Return the cookie's value; None if the browser sent none, or several.

    Its name is compared as it was sent. Starlette strips a no-break space from names: with one
    before it the name has no prefix for browsers, so a neighbouring host could set the cookie.
    """
    pairs = ";".join(request.headers.getlist("cookie")).split(";")
    found = [pair[1] for pair in map(_PAIR.fullmatch, pairs) if pair is not None]
    return found[0] if len(found) == 1 else None


def set_cookie(response: Response, value: str) -> None:
    """Send the cookie, which the browser keeps for one step."""
    _append(response, f"{COOKIE}={value}; Max-Age={MAX_AGE_S}; {_ATTRIBUTES}")


def drop_cookie(response: Response) -> None:
    """Remove the cookie from the browser: each is good for one step."""
    _append(response, f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}")


def _append(response: Response, value: str) -> None:
    response.headers.append("Set-Cookie", value)
