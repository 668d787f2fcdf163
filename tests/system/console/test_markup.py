"""Markup in texts of servers, documents and callers is shown as text everywhere.

Each test of a page checks at its end that none of it was executed or became an element."""

import pytest
from playwright.async_api import Page, expect

from tests.system.console.console_pages import PAGES, ConsolePage
from tests.system.console.demo_gateway import Demo
from tests.system.console.planted import READABLE, SHORT

MARKUP = [it for it in PAGES if "markup" in it.name]
HIDDEN = ("\u202e", "\u2066", "\u200b")


@pytest.mark.parametrize("wanted", MARKUP, ids=lambda it: it.name)
async def test_markup_is_readable_as_text(page: Page, demo: Demo, wanted: ConsolePage) -> None:
    await page.goto(wanted.address(demo))
    main = page.get_by_role("main")
    await expect(main).to_contain_text(READABLE[:20])
    text = await main.inner_text()
    assert [it for it in HIDDEN if it in text] == []


async def test_markup_is_readable_as_text_among_calls(page: Page) -> None:
    await page.goto("/console/calls")
    await expect(page.get_by_role("row").filter(has_text=SHORT)).not_to_have_count(0)
