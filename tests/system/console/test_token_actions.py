"""Creating and revoking tokens in a browser."""

from playwright.async_api import Page, expect

from tests.system.console.demo_gateway import TENANT, Demo
from tests.system.console.opened_pages import expect_accessible
from tests.system.console.people import row_of


async def test_a_token_is_shown_once_works_and_can_be_revoked(page: Page, demo: Demo) -> None:
    await page.goto("/console/tokens")
    await page.get_by_role("link", name="Create a token").click()
    await page.get_by_label("Tenant", exact=True).fill(TENANT)
    await page.get_by_label("Agents").fill("helpdesk")
    await page.get_by_label("Name", exact=True).fill("desk robot")
    await page.get_by_role("button", name="Create token").click()
    secret = await page.locator("#new-token").inner_text()
    assert demo.status_with(secret.strip()) == 200
    await expect_accessible(page)
    await page.get_by_role("link", name="Done").click()
    row = row_of(page, "desk robot")
    await expect(row).to_contain_text("helpdesk")
    assert secret.strip() not in await page.content()
    await row.get_by_role("link", name="Revoke").click()
    await page.get_by_role("button", name="Revoke permanently").click()
    await expect(page.get_by_role("status").first).to_be_visible()
    await expect(row_of(page, "desk robot")).to_have_count(0)
    assert demo.status_with(secret.strip()) == 401


async def test_a_mistake_is_reported_next_to_its_field(page: Page) -> None:
    await page.goto("/console/tokens/new")
    await page.get_by_label("Tenant", exact=True).fill(TENANT)
    await page.get_by_label("Expires").select_option("Custom")
    await page.get_by_label("Expiry", exact=True).fill("soon")
    await page.get_by_role("button", name="Create token").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_label("Tenant", exact=True)).to_have_value(TENANT)
    await expect_accessible(page)
