"""The cookies that browsers keep for the gateway: read and set with their exact names."""

import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """One cookie for all paths, which no script reads.

    Browsers take a ``__Host-`` cookie, a secure one, from this very host alone.
    """

    name: str
    is_secure: bool = True
    same_site: str = "Lax"
    max_age_s: int | None = None
    """None to keep it until the browser closes."""

    def value_in(self, request: Request) -> str | None:
        """Return its value; None if the browser sent none, or several.

        Its name is compared as it was sent. Starlette strips a no-break space from names: with one
        before it the name has no prefix for browsers, so a neighbouring host could set the cookie.
        """
        pattern = re.compile(rf"[ \t]*{re.escape(self.name)}=([A-Za-z0-9_-]+)[ \t]*")
        pairs = ";".join(request.headers.getlist("cookie")).split(";")
        found = [pair[1] for pair in map(pattern.fullmatch, pairs) if pair is not None]
        return found[0] if len(found) == 1 else None

    def set_on(self, response: Response, value: str) -> None:
        """Send the cookie to the browser."""
        self._send(response, value, self.max_age_s)

    def drop_on(self, response: Response) -> None:
        """Remove the cookie from the browser."""
        self._send(response, "", 0)

    def _send(self, response: Response, value: str, max_age_s: int | None) -> None:
        age = "" if max_age_s is None else f"Max-Age={max_age_s}; "
        secure = "Secure; " if self.is_secure else ""
        attributes = f"{age}Path=/; {secure}HttpOnly; SameSite={self.same_site}"
        response.headers.append("Set-Cookie", f"{self.name}={value}; {attributes}")
