"""A browser for the gateway's pages, with cookies, forms and redirects.

Requests to the gateway's public address go to its socket, as through a proxy. The cookies of httpx
cannot be used, because ``__Host-`` cookies require https.
"""

import html
import re
from dataclasses import dataclass, field

import httpx

from tests.support.bounds import BOUND_S
from tests.support.plain_http import NO_TLS

COOKIE = "__Host-mcp-sign-in"

_FORM = re.compile(r'<form method="post" action="([^"]+)"><input type="hidden" name="csrf" value="')
_REFRESH = re.compile(r'<meta http-equiv="refresh" content="0;url=([^"]+)">')
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass
class Form:
    action: str
    csrf: str


@dataclass
class Browser:
    public_url: str
    url: str
    cookies: dict[str, str] = field(default_factory=dict)
    answers: list[httpx.Response] = field(default_factory=list)

    async def open(self, url: str, *, stop_at: str | None = None) -> httpx.Response:
        """Open an address and follow redirects, except to addresses that begin with ``stop_at``."""
        response = await self.send("GET", url)
        while response.is_redirect:
            location = response.headers["location"]
            if stop_at is not None and location.startswith(stop_at):
                return response
            response = await self.send("GET", location)
        return response

    async def press(self, page: httpx.Response, **changes: str) -> httpx.Response:
        form = form_of(page)
        return await self.send("POST", form.action, {"csrf": form.csrf, **changes})

    async def send(
        self, method: str, url: str, data: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send one request, with the gateway's cookies if it goes there."""
        is_ours = url.startswith(f"{self.public_url}/")
        headers: dict[str, str] = {}
        if is_ours and self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={it}" for name, it in self.cookies.items())
        if method == "POST":
            headers["Origin"] = "null"  # sent by browsers from a page without a referrer
        address = url.replace(self.public_url, self.url, 1) if is_ours else url
        async with httpx.AsyncClient(timeout=BOUND_S, verify=NO_TLS) as http:
            response = await http.request(method, address, data=data, headers=headers)
        self.answers.append(response)
        if is_ours:
            self._keep_cookies(response)
        return response

    def _keep_cookies(self, response: httpx.Response) -> None:
        for header in response.headers.get_list("set-cookie"):
            pair, *attributes = [part.strip() for part in header.split(";")]
            name, _, value = pair.partition("=")
            assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes), header
            assert not any(it.lower().startswith("domain") for it in attributes), header
            self.cookies.pop(name, None)
            if "Max-Age=0" not in attributes:
                self.cookies[name] = value


def next_address(page: httpx.Response) -> str:
    """Return the target of a response: of a redirect, or of a page that continues automatically."""
    if page.is_redirect:
        return str(page.headers["location"])
    found = _REFRESH.search(page.text)
    assert found is not None, page.text
    return html.unescape(found[1])


def form_of(page: httpx.Response) -> Form:
    action, csrf = _FORM.search(page.text), _CSRF.search(page.text)
    assert action is not None, page.text
    assert csrf is not None, page.text
    return Form(html.unescape(action[1]), html.unescape(csrf[1]))
