"""npm's ``oidc-provider``: an issuer by strangers, and people who sign in at it."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from tests.interop.conformance_suite import node22
from tests.support.bounds import BOUND_S

PROGRAM = Path(__file__).parent / "oidc_provider.mjs"
MOST_PAGES = 20
"""A sign-in has fewer: the request, the login, the consent, and the redirects between them."""


@contextmanager
def running_issuer(*, scopes: Sequence[str] = (), expires_in: int = 3600) -> Iterator[str]:
    """Run the issuer on a free port and yield its URL.

    ``scopes`` are those of the resource, ``expires_in`` the seconds until an access token expires.
    """
    options = json.dumps({"scopes": [*scopes], "expiresIn": expires_in})
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
    """Sign in and consent as an account, ``NAME@TENANT``, as a browser without script would.

    Returns the address, outside of the issuer, that the browser is redirected to.
    """
    issuer = urlsplit(url).netloc
    async with httpx.AsyncClient(timeout=BOUND_S) as browser:
        response = await browser.get(url)
        for _ in range(MOST_PAGES):
            if response.is_redirect:
                address = urljoin(str(response.url), response.headers["location"])
                if urlsplit(address).netloc != issuer:
                    return address
                response = await browser.get(address)
            else:
                form = _form(response)
                fields = form.fields | ({"login": account} if "login" in form.fields else {})
                response = await browser.post(form.action, data=fields)
    raise AssertionError("the sign-in did not end")


class _Form(HTMLParser):
    """The form of a page: where it goes, and the values of its fields."""

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
    assert (response.status_code, form.action != "") == (200, True), response.text
    return form
