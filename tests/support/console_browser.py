"""A browser for the console's pages, with cookies, redirects and forms."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx

from tests.support.service import Service, running

ADMIN = "correct-horse-battery"
ORIGIN = "http://localhost"
SIGN_IN = "/console/sign-in"
FORM_TYPE = "application/x-www-form-urlencoded"

Fields = Mapping[str, str | list[str]]


@dataclass
class HtmlForm:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Html(HTMLParser):
    """The content of a page: ``text``, ``tags`` with their attributes, ``forms``, links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.forms: list[HtmlForm] = []
        self._unread = 0
        self._field = ""
        """The name of the text area or select element being parsed."""
        self._is_typed = False
        self.feed(page)
        self.close()
        self.text = re.sub(r"\s+", " ", self.text).strip()

    @property
    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]

    def form(self, action: str) -> HtmlForm:
        return next(it for it in self.forms if it.action.partition("?")[0] == action)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in ("script", "style"):
            self._unread += 1
        if tag == "form":
            action = attributes.get("action") or ""
            self.forms.append(HtmlForm(action, (attributes.get("method") or "get").lower()))
        is_unchecked = attributes.get("type") in ("checkbox", "radio") and (
            "checked" not in attributes
        )
        name = attributes.get("name")
        if tag == "input" and self.forms and name and not is_unchecked:
            self.forms[-1].fields[name] = attributes.get("value") or ""
        if tag in ("textarea", "select") and self.forms and name:
            self._field = name
            self.forms[-1].fields[name] = ""
        if tag == "option" and self._field and "selected" in attributes:
            self.forms[-1].fields[self._field] = attributes.get("value") or ""
        self._is_typed = tag == "textarea"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("textarea", "select"):
            self._field, self._is_typed = "", False
        if tag in ("script", "style"):
            self._unread -= 1

    def handle_data(self, data: str) -> None:
        if self._is_typed and self._field:
            self.forms[-1].fields[self._field] += data.removeprefix("\n")
        if not self._unread:
            self.text += data


class ConsoleBrowser:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.cookies: dict[str, str] = {}

    async def sign_in(self, token: str = ADMIN) -> httpx.Response:
        return await self.press(SIGN_IN, {"token": token})

    async def open(self, path: str, **query: str) -> Html:
        response = await self.get(f"{path}?{urlencode(query)}" if query else path)
        assert response.status_code == 200, (response.status_code, Html(response.text).text)
        return Html(response.text)

    async def get(self, path: str, *, follow: bool = True) -> httpx.Response:
        response = await self.send("GET", path)
        while follow and response.is_redirect:
            response = await self.send("GET", response.headers["location"])
        return response

    async def press(
        self, action: str, fields: Fields | None = None, *, on: str | None = None
    ) -> httpx.Response:
        """Send a form of the page (by default the one with this action) and follow redirects."""
        page = Html((await self.get(on or action)).text)
        response = await self.post(action, {**page.form(action).fields, **(fields or {})})
        while response.is_redirect:
            response = await self.send("GET", response.headers["location"])
        return response

    async def post(
        self, path: str, fields: Fields, *, origin: str | None = ORIGIN, **headers: str
    ) -> httpx.Response:
        """Send exactly these fields; return the response without following redirects."""
        sent = {"content-type": FORM_TYPE, **headers}
        if origin is not None:
            sent["origin"] = origin
        return await self.send("POST", path, urlencode(fields, doseq=True).encode(), sent)

    async def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        sent = dict(headers or {})
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={it}" for name, it in self.cookies.items())
        self.http.cookies.clear()  # shared by all browsers of the service
        response = await self.http.request(method, path, content=content, headers=sent)
        self._keep(response.headers.get_list("set-cookie"))
        return response

    def _keep(self, cookies: Iterable[str]) -> None:
        for cookie in cookies:
            pair, *attributes = [part.strip() for part in cookie.split(";")]
            name, _, value = pair.partition("=")
            self.cookies.pop(name, None)
            if "Max-Age=0" not in attributes:
                self.cookies[name] = value


@dataclass
class ConsoleService:
    service: Service
    browser: ConsoleBrowser

    def new_browser(self) -> ConsoleBrowser:
        return ConsoleBrowser(self.service.http)


@asynccontextmanager
async def running_console(**settings: object) -> AsyncIterator[ConsoleService]:
    """Start a service like ``running``, with a console, and sign in with the admin token."""
    options = {"console": True, "admin_token": ADMIN, **settings}
    async with running(**options) as service:  # type: ignore[arg-type]
        browser = ConsoleBrowser(service.http)
        if options["admin_token"] is not None:
            await browser.sign_in()
        yield ConsoleService(service, browser)
