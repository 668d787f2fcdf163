"""Actions of users in the console."""

from playwright.async_api import Locator, Page, Route, expect

from tests.system.console.opened_pages import SET_BY_TEST


async def sign_in(page: Page, token: str) -> None:
    await page.goto("/console/sign-in")
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()


async def run_a_tool(page: Page) -> None:
    await page.goto("/console/try?tenant_id=acme&user_id=ann&tool=weather:forecast")
    await page.get_by_label("name").fill("Berlin")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()


async def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until the element has the focus. Fails after a complete cycle."""
    for _ in range(200):
        await page.keyboard.press("Tab")
        if await wanted.evaluate("(it) => it === document.activeElement"):
            return
    raise AssertionError(f"Tab does not come to {wanted}")


def row_of(page: Page, words: str) -> Locator:
    return page.get_by_role("row").filter(has_text=words)


async def expect_done(page: Page, words: str) -> None:
    await expect(page.get_by_role("status").filter(has_text=words)).to_be_visible()


async def refuse_once(page: Page, path: str, status: int = 503) -> None:
    """Answer the next request for an address like a failing proxy."""

    async def refuse(route: Route) -> None:
        await route.fulfill(status=status, body="no upstream", headers={SET_BY_TEST: "1"})

    await page.route(path, refuse, times=1)
