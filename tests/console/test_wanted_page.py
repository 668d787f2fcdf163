"""After signing in, users reach the requested page and never a foreign one."""

from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest

from tests.support.console_browser import (
    ADMIN,
    ORIGIN,
    SIGN_IN,
    ConsoleBrowser,
    ConsoleService,
    Html,
    running_console,
)
from tests.support.service import running
from tests.support.tables import named_row

WANTED = "/console/documents?tenant_id=a%C3%A9+b&q=%22x%22"
HOSTILE = [
    "https://evil.example/console",
    "//evil.example/console",
    "/\\evil.example",
    "\\\\evil.example",
    "/console//evil.example",
    "/console/\\evil.example",
    "/console/../internal/mcp/audit",
    "/console/%2e%2E/internal",
    "/console/..%2finternal",
    "/console/x%5c..%5c..%5cinternal",
    "/console/./x",
    "/console\t/x",
    "/console/x\r\nset-cookie: a=b",
    "/console/x\x00",
    "/console/ü",
    "/console#x",
    "/consoles",
    "/console.evil.example",
    "console",
    "javascript:alert(1)",
    "/internal/mcp/audit",
    "/console/sign-in",
    "/console/sign-out",
    "/console/begin?code=x",
    "/console/callback?code=x&state=y",
    "/console/%63allback?code=x",
    f"/console/{'x' * 2000}",
    " /console/servers",
]


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


async def test_the_requested_page_opens_after_the_sign_in(console: ConsoleService) -> None:
    browser = console.new_browser()
    led = await browser.get(WANTED, follow=False)
    sign_in = led.headers["location"]
    await browser.press(SIGN_IN, {"token": "wrong"}, on=sign_in)
    again = Html((await browser.press(SIGN_IN, {"token": "wrong"}, on=sign_in)).text)
    fields = {**again.form(SIGN_IN).fields, "token": ADMIN}
    response = await browser.post(SIGN_IN, fields)
    assert (response.status_code, response.headers["location"]) == (303, WANTED)


async def test_without_a_requested_page_the_first_accessible_one_opens(
    console: ConsoleService,
) -> None:
    browser = console.new_browser()
    assert (await browser.get("/console", follow=False)).headers["location"] == SIGN_IN
    fields = (await browser.open(SIGN_IN)).form(SIGN_IN).fields
    response = await browser.post(SIGN_IN, {**fields, "token": ADMIN})
    assert response.headers["location"] == "/console"


async def test_a_form_is_not_repeated_after_the_sign_in(console: ConsoleService) -> None:
    for method, path in [
        ("POST", "/console/documents/manage"),
        ("GET", "/console/visibility/switch"),
    ]:
        with named_row(method, path):
            response = await console.new_browser().send(method, path)
            assert response.headers["location"] == SIGN_IN


async def test_a_link_to_the_sign_in_cannot_redirect_elsewhere(console: ConsoleService) -> None:
    for address in HOSTILE:
        with named_row(address):
            browser = console.new_browser()
            page = await browser.open(f"{SIGN_IN}?{urlencode({'wanted': address})}")
            assert "wanted" not in page.form(SIGN_IN).fields
            response = await browser.post(SIGN_IN, {"token": ADMIN, "wanted": address})
            assert response.headers["location"] == "/console"


async def test_behind_a_proxy_path_the_page_stays_in_the_console() -> None:
    async with running(console=True, admin_token=ADMIN, public_url=f"{ORIGIN}/tools") as service:
        browser = ConsoleBrowser(service.http)
        led = await browser.get(WANTED, follow=False)
        assert led.headers["location"].startswith(f"/tools{SIGN_IN}?wanted=%2Fconsole")
        response = await browser.post(SIGN_IN, {"token": ADMIN, "wanted": WANTED})
        assert response.headers["location"] == f"/tools{WANTED}"
