"""Reads cookies as browsers send them."""

import re

from starlette.requests import Request


def single_cookie(request: Request, name: str) -> str | None:
    """Return a cookie's value; None if the browser sent none, or several.

    Its name is compared as it was sent. Starlette strips a no-break space from names: with one
    before it the name has no prefix for browsers, so a neighbouring host could set the cookie.
    """
    pattern = re.compile(rf"[ \t]*{re.escape(name)}=([A-Za-z0-9_-]+)[ \t]*")
    pairs = ";".join(request.headers.getlist("cookie")).split(";")
    found = [pair[1] for pair in map(pattern.fullmatch, pairs) if pair is not None]
    return found[0] if len(found) == 1 else None
