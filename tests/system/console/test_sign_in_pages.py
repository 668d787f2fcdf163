"""Console sign-in and sign-out in a browser."""

from playwright.async_api import Page, expect

from tests.system.console.demo_gateway import Demo
from tests.system.console.opened_pages import expect_accessible
from tests.system.console.people import sign_in

NOTE = "desk of acme"


async def test_an_invalid_token_is_reported(stranger: Page) -> None:
    page = stranger
    await page.goto("/console")
    await page.get_by_label("Token").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_label("Token")).to_have_attribute("aria-invalid", "true")
    await expect_accessible(page)


async def test_a_token_opens_the_pages_of_its_rights(stranger: Page, demo: Demo) -> None:
    page = stranger
    await sign_in(page, demo.tokens[NOTE])
    parts = page.get_by_role("navigation", name="Console").get_by_role("link")
    await expect(parts.filter(has_text="Documents")).to_be_visible()
    await expect(parts.filter(has_text="Try")).to_have_count(0)
    await parts.filter(has_text="Documents").click()
    await expect(page.get_by_text("Terms of the trial")).to_have_count(0)
    await expect(page.get_by_role("link", name="Travel policy")).to_be_visible()


async def test_after_signing_out_the_back_button_shows_no_page(stranger: Page, demo: Demo) -> None:
    page = stranger
    await sign_in(page, demo.tokens[NOTE])
    await page.goto("/console/tokens")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("You are signed out")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("heading", name="Sign in to the console")).to_be_visible()


async def test_each_section_can_be_reached_from_the_navigation(page: Page) -> None:
    await page.goto("/console")
    rail = page.get_by_role("navigation", name="Console")
    names = [
        name
        for name in await rail.get_by_role("link").all_inner_texts()
        if "Dashboard" not in name and name != "Help"
    ]
    for name in names:
        link = rail.get_by_role("link", name=name, exact=True)
        await link.click()
        await expect(link).to_have_attribute("aria-current", "page")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert len(names) == 8
