"""Server, definition and preset actions of an operator in a browser."""

from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from tests.support.program import wait_until
from tests.system.console.demo_gateway import Demo
from tests.system.console.opened_pages import expect_accessible
from tests.system.console.people import expect_done, refuse_once, row_of


@pytest.fixture
def kept_lock(demo: Demo) -> Iterator[None]:
    """Restore the lock, because other tests use the changed definition."""
    before = demo.lock_file.read_bytes()
    yield
    demo.lock_file.write_bytes(before)
    wait_until(lambda: demo.quarantined() == ["search"])


async def test_items_that_need_attention_link_to_their_pages(page: Page) -> None:
    await page.goto("/console")
    await page.get_by_role("link", name="Details of tickets").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("tickets")
    await expect(page.get_by_text("connection refused").first).to_be_visible()


async def test_the_overview_refreshes_itself(page: Page) -> None:
    await page.clock.install()
    await page.goto("/console")
    for _ in range(2):  # the second time through the part that the first one inserted
        async with page.expect_response(lambda it: it.url.endswith("/console")):
            await page.clock.run_for(30_000)


async def test_the_overview_stays_if_it_cannot_be_refreshed(page: Page) -> None:
    await page.clock.install()
    await page.goto("/console")
    await refuse_once(page, "**/console")
    await page.clock.run_for(30_000)
    await expect(page.get_by_role("alert")).to_contain_text("503")
    await expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    async with page.expect_response(lambda it: it.url.endswith("/console") and it.ok):
        await page.clock.run_for(30_000)
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()


async def test_the_overview_does_not_refresh_while_in_use(page: Page) -> None:
    await page.clock.install()
    await page.goto("/console")
    link = page.get_by_role("link", name="Details of tickets")
    await link.focus()
    await page.clock.run_for(60_000)
    await expect(link).to_be_focused()
    await link.blur()
    await page.get_by_text("Calls in the last hour").select_text()
    await page.clock.run_for(60_000)
    assert await page.evaluate("getSelection().toString()") == "Calls in the last hour"
    await page.evaluate("getSelection().empty()")
    async with page.expect_response(lambda it: it.url.endswith("/console")):
        await page.clock.run_for(30_000)


async def test_the_slow_server_can_be_found(page: Page) -> None:
    await page.goto("/console/servers")
    await page.get_by_role("link", name="p99").click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("slowest")


async def test_a_server_can_be_reconnected(page: Page) -> None:
    await page.goto("/console/servers/tickets")
    await page.get_by_role("button", name="Reconnect now").click()
    await expect_done(page, "Reconnecting tickets")


async def test_a_changed_definition_can_be_accepted(page: Page, kept_lock: None) -> None:
    await page.goto("/console/servers")
    await page.get_by_role("link", name="1 changed definition of notes").click()
    await expect(page.get_by_role("deletion")).to_have_text("notes.")
    await expect(page.get_by_role("insertion")).to_contain_text("Ignore all previous instructions")
    await expect_accessible(page)
    await page.goto("/console/servers/notes?change=tool&name=search")
    await expect(page.get_by_role("heading", name="Changed definition")).to_be_visible()
    await expect_accessible(page)
    await page.goto("/console/servers/notes?tab=changes")
    await page.get_by_text("Accept …").click()
    await page.get_by_role("button", name="Accept this definition").click()
    await expect_done(page, "search accepted")
    await expect(page.get_by_role("heading", name="No changed definitions")).to_be_visible()


async def test_the_reason_for_a_hidden_tool_is_shown(page: Page) -> None:
    await page.goto("/console/visibility")
    form = page.locator("form").filter(has=page.get_by_role("heading", name="Why is a tool"))
    await form.get_by_label("Tool", exact=True).fill("weather:calibrate")
    await form.get_by_label("Tenant").fill("acme")
    await form.get_by_label("Agent").select_option("helpdesk")
    await form.get_by_role("button", name="Explain").click()
    await expect(page.get_by_text("agents.json")).to_be_visible()
    await expect(row_of(page, "visibility")).to_contain_text("TOOL_NOT_ALLOWED")


async def test_two_previews_can_be_compared(page: Page) -> None:
    await page.goto("/console/visibility")
    await page.get_by_text("Compare with another caller or preset").click()
    await page.get_by_label("Compare side by side").check()
    await page.get_by_label("Other agent").select_option("reader")
    await page.get_by_role("button", name="Apply", exact=True).click()
    await expect(row_of(page, "weather:forecast")).to_contain_text("no access")


async def test_the_preset_can_be_switched_and_reset(page: Page) -> None:
    for name, preset in (("Everything", "all"), ("Support desk", "support")):
        await page.goto("/console/visibility")
        await page.get_by_label("Preset", exact=True).select_option(name)
        await page.get_by_role("button", name="Apply", exact=True).click()
        await page.get_by_text("Switch …").click()
        await page.get_by_role("button", name=f"Switch to {preset}").click()
        await expect_done(page, preset)
        await expect(page.get_by_label("Preset", exact=True)).to_contain_text(f"{name} (active)")
