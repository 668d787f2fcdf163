"""The console in a browser without scripts."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.system.console.console_pages import PAGES, ConsolePage
from tests.system.console.demo_gateway import ADMIN, POLICY, TENANT, Demo
from tests.system.console.people import row_of, sign_in

pytestmark = pytest.mark.parametrize("options", [{"java_script_enabled": False}], ids=["plain"])


@pytest.mark.parametrize("wanted", PAGES, ids=lambda it: it.name)
async def test_a_page_can_be_read_without_scripts(
    page: Page, demo: Demo, wanted: ConsolePage
) -> None:
    response = await page.goto(wanted.address(demo))
    assert response is not None
    assert response.status == wanted.status
    await expect(page.get_by_role("heading", level=1)).to_be_visible()


async def test_sign_in_and_out_work_without_scripts(stranger: Page) -> None:
    page = stranger
    await sign_in(page, ADMIN)
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("You are signed out")).to_be_visible()


async def test_a_tool_can_be_run_without_scripts(page: Page) -> None:
    await page.goto("/console/try?tenant_id=acme&user_id=ann&tool=weather:forecast")
    await page.get_by_label("name").fill("Berlin")
    await page.get_by_role("button", name="Add another row to alarms").click()
    await page.get_by_label("kind").select_option("frost")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    await expect(page.get_by_label("name")).to_have_value("Berlin")


async def test_calls_can_be_found_without_scripts(page: Page) -> None:
    await page.goto("/console/calls")
    await page.get_by_label("Tool, prompt or resource").fill("weather:calibrate")
    await page.get_by_role("button", name="Show").click()
    await expect(row_of(page, "TOOL_FAILED")).not_to_have_count(0)
    await expect(row_of(page, "weather:radar")).to_have_count(0)


async def test_a_document_can_be_added_and_removed_without_scripts(page: Page) -> None:
    await page.goto("/console/documents/upload")
    await page.get_by_label("Tenant", exact=True).fill(TENANT)
    await page.get_by_label("File", exact=True).set_input_files(
        {"name": "plain.md", "mimeType": "text/markdown", "buffer": b"# Plain\n\nWithout scripts."}
    )
    await page.get_by_role("button", name="Add document").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Plain")
    await page.get_by_role("link", name="Details and access").click()
    await page.get_by_text("Remove document").click()
    await page.get_by_role("button", name="Remove permanently").click()
    await expect(page.get_by_role("status")).to_contain_text("plain")


async def test_a_quote_can_be_searched_and_verified_without_scripts(page: Page) -> None:
    await page.goto(f"/console/documents/search?tenant_id={TENANT}&doc_id={POLICY}")
    await page.get_by_label("Query").fill("trips of 7 days")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("heading", name=re.compile(r"^\d+ results?$"))).to_be_visible()
    await page.get_by_role("link", name="Verify a quotation").click()
    await page.get_by_label("Quoted text").fill("Trips of 7 days are paid for")
    await page.get_by_role("button", name="Verify").click()
    await expect(page.get_by_role("heading", name="Found word for word")).to_be_visible()
