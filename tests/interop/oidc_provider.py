"""npm's ``oidc-provider``, a third-party issuer, and users who sign in at it."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urljoin, urlsplit

import httpx

from tests.interop.conformance_suite import node22
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json

PROGRAM = Path(__file__).parent / "oidc_provider.mjs"
MOST_PAGES = 20
"""A sign-in needs fewer: the request, the login, the consent, and the redirects between them."""


@dataclass(frozen=True)
class IssuerRecord:
    """The issuer's file of received requests; empty before the first request."""

    file: Path

    def token_requests(self, client_id: str) -> list[Json]:
        """Return a client's token requests, each with its ``status`` and ``answer``."""
        return [it for it in self._read("/token") if it.get("client") == client_id]

    def codes(self) -> list[str]:
        return [it["request"]["code"] for it in self._read("/token") if "code" in it["request"]]

    def registered(self) -> list[Json]:
        """Return the self-registered clients as stored by the issuer."""
        return [it["answer"] for it in self._read("/reg")]

    def _read(self, path: str) -> list[Json]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [it for line in lines if (it := json.loads(line))["path"] == path]


@contextmanager
def running_issuer(
    *,
    scopes: Sequence[str] = (),
    expires_in: int = 3600,
    clients: Sequence[Json] = (),
    audiences: Mapping[str, str] = MappingProxyType({}),
    record: Path | None = None,
) -> Iterator[str]:
    """Run the issuer on a free port and yield its URL.

    ``scopes`` are those of the resource, ``expires_in`` the seconds until an access token expires;
    ``clients`` exist from the start, ``audiences`` are those of clients whose tokens are for
    another resource than requested. ``record`` is the file of an IssuerRecord.
    """
    options = json.dumps(
        {
            "scopes": [*scopes],
            "expiresIn": expires_in,
            "clients": [*clients],
            "audiences": {**audiences},
            "record": None if record is None else str(record),
        }
    )
    with subprocess.Popen(  # noqa: S603 - the pinned package
        [node22(), str(PROGRAM), options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url, "oidc-provider did not start"
            yield url
        finally:
            process.terminate()
            process.wait(BOUND_S)


async def sign_in(url: str, account: str) -> str:
    """Sign in and consent as an account, ``NAME@TENANT``, like a browser without scripts.

    Returns the address outside the issuer that the browser is redirected to.
    """
    reached = await _visit(url, {"login": account})
    assert isinstance(reached, str), reached.text
    return reached


async def sign_in_device(url: str, user_code: str, account: str) -> None:
    """Enter a device code, then sign in and consent like ``sign_in``."""
    reached = await _visit(url, {"login": account, "user_code": user_code})
    assert isinstance(reached, httpx.Response), reached
    assert "Sign-in Success" in reached.text


async def _visit(url: str, typed: Mapping[str, str]) -> str | httpx.Response:
    """Submit forms until a redirect leaves the issuer, or a page is without a form."""
    issuer = urlsplit(url).netloc
    async with httpx.AsyncClient(timeout=BOUND_S) as browser:
        response = await browser.get(url)
        for _ in range(MOST_PAGES):
            if response.is_redirect:
                address = urljoin(str(response.url), response.headers["location"])
                if urlsplit(address).netloc != issuer:
                    return address
                response = await browser.get(address)
                continue
            form = _form(response)
            if not form.action:
                return response
            fields = {name: typed.get(name, value) for name, value in form.fields.items()}
            response = await browser.post(form.action, data=fields)
    raise AssertionError("the sign-in did not end")


class _Form(HTMLParser):
    """The form of a page: its target and the values of its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.action = found["action"] or ""
        elif tag == "input":
            self.fields[found["name"] or ""] = found.get("value") or "any"


def _form(response: httpx.Response) -> _Form:
    form = _Form()
    form.feed(response.text)
    assert response.status_code == 200, response.text
    return form
