"""Cookies of load balancers: kept for one connection to one origin, in memory only."""

import aiohttp
from yarl import URL

_MAX_CHARS = 8_192


class StickyCookies:
    """Adds the cookies that a server's origin set to the headers of later requests.

    Balancers keep a session on one replica by a cookie. A Domain attribute extends nothing: only
    the exact origin of ``url`` is sent cookies.
    """

    def __init__(self, url: URL, headers: dict[str, str]) -> None:
        self._url = url
        self._headers = headers
        self._name = next((it for it in headers if it.lower() == "cookie"), "Cookie")
        self._configured = headers.get(self._name)
        self._jar = aiohttp.CookieJar(unsafe=True)

    def __repr__(self) -> str:
        return f"<StickyCookies {len(self._jar)}>"

    def keep(self, response: aiohttp.ClientResponse) -> None:
        """Store the cookies of a response; cookies beyond the limit are dropped."""
        if "Set-Cookie" not in response.headers or response.url.origin() != self._url.origin():
            return  # response.cookies makes an object for each answer
        self._jar.update_cookies(response.cookies, response.url)
        found = self._jar.filter_cookies(self._url).values()
        own = [f"{it.key}={it.coded_value}" for it in found]
        text = "; ".join([*([] if self._configured is None else [self._configured]), *own])
        if text and text.isprintable() and len(text) <= _MAX_CHARS:
            self._headers[self._name] = text
        elif not text:
            self._headers.pop(self._name, None)
