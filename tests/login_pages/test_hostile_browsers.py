"""Cookies, answers and forms that the user's browser did not send."""

import re

import httpx
import pytest

from mcp_tools_proxy.downstream.oauth.discovery import MAX_SCOPES
from tests.login_pages.page_gateway import PUBLIC_URL, PageGateway, page_gateway
from tests.support.bounds import BOUND_S
from tests.support.browser import COOKIE
from tests.support.plain_http import NO_TLS


async def _answer(gateway: PageGateway, url: str, cookie: bytes) -> int:
    address = url.replace(PUBLIC_URL, gateway.served.url, 1)
    async with httpx.AsyncClient(timeout=BOUND_S, verify=NO_TLS) as http:
        return (await http.get(address, headers=[(b"Cookie", cookie)])).status_code


@pytest.mark.parametrize(
    ("cookie", "status"),
    [
        (b"first=1; %b; last=2", 200),
        (b"\xa0%b", 403),
        (b"first=1;\x85%b", 403),
        (b"%b\xa0", 403),
        (b"%b; __Host-mcp-sign-in=another", 403),
        (b"__Host-mcp-sign-in=another; %b", 403),
    ],
)
async def test_a_cookie_planted_by_a_neighbouring_host_binds_no_browser(
    cookie: bytes, status: int
) -> None:
    """Browsers detect a prefix at the start of a name; no characters may be stripped from it."""
    async with page_gateway() as gateway:
        ann = gateway.browser()
        going = await ann.send("GET", await gateway.address())
        async with httpx.AsyncClient(timeout=BOUND_S, verify=NO_TLS) as http:
            back = await http.get(going.headers["location"])
        sent = f"{COOKIE}={ann.cookies[COOKIE]}".encode()
        assert await _answer(gateway, back.headers["location"], cookie % sent) == status


async def test_a_repeatedly_requested_address_stores_few_scopes() -> None:
    async with page_gateway() as gateway:
        for number in range(3):
            scopes = [f"scope-{number}-{it}" for it in range(64)]
            url = str((await gateway.post_login(scopes=scopes)).json()["url"])
        page = await gateway.browser().open(url)
    assert page.text.count("scope-") == MAX_SCOPES
    assert scopes[0] in page.text


async def test_a_page_names_the_issuer_even_if_the_sign_in_is_at_another_host() -> None:
    """The issuer receives the code; a host that hides its identity could forward it."""
    async with page_gateway() as gateway:
        gateway.issuer.metadata["authorization_endpoint"] = "https://bank.example/authorize"
        page = await gateway.browser().open(await gateway.address())
        shown = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page.text))
        assert shown["Sign-in page"] == "https://bank.example"
        assert shown["Token issuer"] == gateway.issuer.url
