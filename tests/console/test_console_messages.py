"""A message about an action is shown once, in the session of the action, and cannot be forged."""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator

import pytest

from tests.console.document_pages import MANAGE, page_of, put
from tests.support.console_browser import ConsoleService, Html, running_console

MESSAGE = "mcp-console-message"
DONE = "Readers saved"


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        await put(started)
        yield started


async def message_of(console: ConsoleService) -> str:
    """Perform an action; return its message cookie before a page has shown it."""
    form = (await console.browser.open(page_of(MANAGE))).form(MANAGE)
    await console.browser.post(MANAGE, form.fields)
    return console.browser.cookies[MESSAGE]


async def test_a_message_is_shown_once(console: ConsoleService) -> None:
    await message_of(console)
    assert DONE in (await console.browser.open(page_of(MANAGE))).text
    assert MESSAGE not in console.browser.cookies
    assert DONE not in (await console.browser.open(page_of(MANAGE))).text


async def test_a_planted_message_is_not_shown(console: ConsoleService) -> None:
    text = urlsafe_b64encode(b"Call 0900 to keep your data").decode().rstrip("=")
    seal = (await message_of(console))[:64]
    for planted in (text, f"{seal}{text}", f"{'0' * 64}{text}", "x", "0" * 64, f"{seal}_"):
        console.browser.cookies[MESSAGE] = planted
        page = await console.browser.open(page_of(MANAGE))
        assert "0900" not in page.text
        assert "notice ok" not in [attributes.get("class") for _, attributes in page.tags]
        signing_in = await console.new_browser().send(
            "GET", "/console/sign-in", headers={"cookie": f"{MESSAGE}={planted}"}
        )
        assert "0900" not in signing_in.text


async def test_a_message_of_another_session_is_not_shown(console: ConsoleService) -> None:
    message = await message_of(console)
    await console.browser.sign_in()
    console.browser.cookies[MESSAGE] = message
    assert DONE not in (await console.browser.open(page_of(MANAGE))).text


async def test_over_https_the_cookie_has_the_host_prefix() -> None:
    async with running_console(public_url="https://gateway.example") as console:
        await put(console)
        page = await console.browser.open(page_of(MANAGE))
        done = await console.browser.post(
            MANAGE, page.form(MANAGE).fields, origin="https://gateway.example"
        )
        (cookie,) = [it for it in done.headers.get_list("set-cookie") if "message" in it]
        assert cookie.startswith(f"__Host-{MESSAGE}=")
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= {
            part.strip() for part in cookie.split(";")
        }
        assert DONE in Html((await console.browser.get(page_of(MANAGE))).text).text
