"""Past and live calls in a browser; times are in the reader's zone."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.system.console.demo_gateway import OTHER_TENANT, Demo
from tests.system.console.people import row_of


async def test_a_new_call_appears_in_the_live_view(page: Page, demo: Demo) -> None:
    await page.goto("/console/calls?live=1&tool=weather:forecast")
    await expect(page.get_by_text("calls appear here when they end")).to_be_visible()
    demo.call("weather:forecast", {"place": {"name": "Kiel"}}, user_id="live-user")
    await expect(row_of(page, "live-user")).to_contain_text("OK")
    await row_of(page, "live-user").get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("weather:forecast")


async def test_failed_calls_and_their_deciding_checks_can_be_found(page: Page) -> None:
    await page.goto("/console/calls")
    await page.get_by_label("Result").select_option("All errors")
    await page.get_by_label("Tool, prompt or resource").fill("notes:search")
    await page.get_by_role("button", name="Show", exact=True).click()
    await row_of(page, "TOOL_NOT_ALLOWED").first.get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Checks", exact=True)).to_be_visible()
    trace = page.get_by_role("link", name="Open trace")
    await expect(trace).to_have_attribute("href", re.compile(r"^https://traces\.example/trace/\w+"))


async def test_the_budgets_of_a_tenant_can_be_shown(page: Page) -> None:
    await page.goto("/console")
    await page.get_by_role("link", name=OTHER_TENANT).first.click()
    budgets = page.get_by_role("region", name="Budgets", exact=True)
    await expect(budgets.get_by_role("row", name="trial")).to_contain_text("1 of 12 calls")


@pytest.mark.parametrize("options", [{"timezone_id": "Asia/Kolkata"}], ids=["india"])
async def test_times_are_in_the_time_zone_of_the_reader(page: Page) -> None:
    await page.goto("/console/servers/weather")
    time = page.get_by_role("time").first
    utc = await time.get_attribute("datetime")
    shown = await page.evaluate(
        """(utc) => new Date(utc).toLocaleString("en-GB", {dateStyle: "medium",
          timeStyle: "medium", timeZone: "Asia/Kolkata"})""",
        utc,
    )
    await expect(time).to_have_text(shown)
    await expect(time).to_have_attribute(
        "title", re.compile(r"20\d\d.*([A-Z]{3}|GMT\+5:30) \(20\d\d-\d\d-\d\d [\d:]+ UTC\)$")
    )


PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("options", [{"viewport": PHONE}], ids=["phone"])
async def test_eight_calls_fit_on_a_phone(page: Page) -> None:
    await page.goto("/console/calls?code=OK")
    await expect(page.get_by_text("Filter, 1 active")).to_be_visible()
    await expect(page.get_by_label("Result")).not_to_be_visible()
    rows = page.locator("#rows > tr")
    for number in range(8):
        await expect(rows.nth(number)).to_be_in_viewport(ratio=1)
    await page.get_by_text("Filter, 1 active").click()
    await expect(page.get_by_label("Result")).to_be_visible()
    await page.set_viewport_size({"width": 1440, "height": 900})
    await expect(page.get_by_label("Result")).to_be_visible()


async def test_a_table_of_calls_can_be_downloaded(page: Page) -> None:
    await page.goto("/console/calls?tool=notes:search")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="CSV").click()
    download = await downloading.value
    assert download.suggested_filename == "calls.csv"
    lines = (await download.path()).read_text(encoding="utf-8").splitlines()
    assert "TOOL_NOT_ALLOWED" in lines[1]
