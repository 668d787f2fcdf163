"""The pages of approvals in a browser: accessible, narrow as well, and calls shown as text."""

from playwright.async_api import Browser, expect

from tests.support.approvals import PAY
from tests.system.console.approver import approver, pay
from tests.system.console.opened_pages import expect_accessible
from tests.system.console.people import expect_done
from tests.system.console.planted import PLANTED, READABLE, SHORT

MARKUP = PAY.replace("A second person has to agree.", SHORT)


async def test_a_person_reads_and_decides(chromium: Browser) -> None:
    async with approver(chromium, MARKUP) as (page, http, token):
        await page.goto("/console/approvals")
        await expect(page.get_by_text("No calls are waiting")).to_be_visible()
        await expect_accessible(page)
        planted, bob = [
            (await pay(http, token, to, user_id=SHORT))["error"]["details"]["approval_id"]
            for to in (PLANTED, "bob")
        ]
        await page.reload()
        await expect_accessible(page)
        await page.locator(f"a[href$='{planted}']").click()
        await expect(page.get_by_role("heading", name="Arguments")).to_be_visible()
        await expect(page.locator("pre")).to_contain_text(READABLE.replace('"', '\\"'))
        await expect(page.locator("pre")).to_contain_text(r"\u202e")
        await expect_accessible(page)
        await page.get_by_role("button", name="Approve").click()
        await expect_done(page, "Approved.")
        await expect_accessible(page)
        assert (await pay(http, token, PLANTED, user_id=SHORT))["status"] == "ok"
        await page.reload()
        await expect(page.get_by_text("used, succeeded")).to_be_visible()
        await page.goto("/console/approvals")
        await page.locator(f"a[href$='{bob}']").click()
        await page.get_by_label("Note").fill("Not today")
        await page.get_by_role("button", name="Refuse").click()
        await expect_done(page, "Refused.")
        assert "Not today" in (await pay(http, token, "bob", user_id=SHORT))["error"]["message"]
        await page.goto("/console/approvals")
        await expect_accessible(page)
        await page.goto("/console/approvals/none")
        await expect_accessible(page)
