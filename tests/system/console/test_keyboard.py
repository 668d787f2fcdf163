"""The console with the keyboard only."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.system.console.console_pages import PAGES, SIGNED_OUT_PAGES, ConsolePage
from tests.system.console.demo_gateway import ADMIN, Demo
from tests.system.console.opened_pages import OPEN_DETAILS
from tests.system.console.people import tab_to

_FOCUS = (Path(__file__).parent / "focus.js").read_text(encoding="utf-8").partition("\n")[2]
MAX_PRESSES_EACH = 8
"""A time field has six parts and a calendar button."""


@pytest.mark.parametrize("wanted", PAGES, ids=lambda it: it.name)
async def test_tab_reaches_every_element_with_visible_focus(
    page: Page, demo: Demo, wanted: ConsolePage
) -> None:
    await _check(page, demo, wanted)


@pytest.mark.parametrize("wanted", SIGNED_OUT_PAGES, ids=lambda it: it.name)
async def test_tab_reaches_every_element_before_the_sign_in(
    stranger: Page, demo: Demo, wanted: ConsolePage
) -> None:
    await _check(stranger, demo, wanted)


async def _check(page: Page, demo: Demo, wanted: ConsolePage) -> None:
    await page.goto(wanted.address(demo))
    await page.evaluate(OPEN_DETAILS)
    stops = int(await page.evaluate(_FOCUS))
    assert stops > 0
    for _ in range(stops * MAX_PRESSES_EACH):
        await page.keyboard.press("Tab")
        focus = await page.evaluate("window.takeFocus()")
        if focus["isOver"]:
            break
    else:
        pytest.fail("Tab never comes to the end of the page")
    assert focus["faults"] == []


async def test_the_first_tab_stop_skips_the_navigation(page: Page) -> None:
    await page.goto("/console/servers")
    skip = page.get_by_role("link", name="Skip to main content")
    await page.keyboard.press("Tab")
    await expect(skip).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.querySelector('main').contains(document.activeElement)")


async def test_the_keyboard_can_sign_in_and_out(stranger: Page) -> None:
    page = stranger
    await page.goto("/console/sign-in")
    await tab_to(page, page.get_by_label("Token"))
    await page.keyboard.type(ADMIN)
    await page.keyboard.press("Enter")
    sign_out = page.get_by_role("button", name="Sign out")
    await expect(sign_out).to_be_visible()
    await tab_to(page, sign_out)
    await page.keyboard.press("Space")
    await expect(page.get_by_text("You are signed out")).to_be_visible()


async def test_the_keyboard_can_run_a_tool(page: Page) -> None:
    await page.goto("/console/try?tenant_id=acme&user_id=ann")
    tools = page.get_by_role("region", name="Tools of this caller")
    await tab_to(page, tools.get_by_role("link", name="weather:forecast"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Try weather:forecast")).to_be_visible()
    await tab_to(page, page.get_by_label("name"))
    await page.keyboard.type("Berlin")
    await tab_to(page, page.get_by_role("button", name="Run", exact=True))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
