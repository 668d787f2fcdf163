"""Running tools in a browser."""

from playwright.async_api import Page, expect

from tests.system.console.console_pages import HOSTILE_TOOL_NAME
from tests.system.console.opened_pages import expect_accessible
from tests.system.console.people import refuse_once
from tests.system.console.planted import READABLE

FORECAST = "/console/try?tenant_id=acme&user_id=ann&tool=weather:forecast"


async def test_a_tool_can_be_found_filled_in_and_run(page: Page) -> None:
    await page.goto("/console/try")
    await page.get_by_label("Tenant", exact=True).fill("acme")
    await page.get_by_label("User").fill("ann")
    await page.get_by_role("button", name="List tools").click()
    tools = page.get_by_role("region", name="Tools of this caller")
    await tools.get_by_role("link", name="weather:forecast").click()
    await page.get_by_label("name").fill("Lyon")
    await page.get_by_label("country").select_option("FR")
    await page.get_by_label("days").fill("5")
    await page.get_by_role("button", name="Add another row to alarms").click()
    await page.get_by_label("kind").select_option("wind")
    await page.get_by_label("above").fill("7.5")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    await expect(page.locator("#model-text")).to_contain_text("wind above 7.5")
    await expect(page.get_by_label("name")).to_have_value("Lyon")
    tries = page.get_by_role("complementary", name="Recent runs")
    await expect(tries.get_by_role("link", name="weather:forecast").first).to_be_visible()
    await expect_accessible(page)


async def test_a_mistake_is_reported_next_to_its_field(page: Page) -> None:
    await page.goto(FORECAST)
    await page.get_by_label("name").fill("Berlin")
    await page.get_by_label("days").fill("many")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_label("days")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_text("Nothing was sent")).to_be_visible()
    await expect_accessible(page)


async def test_typed_input_stays_if_the_gateway_does_not_answer(page: Page) -> None:
    await page.goto(FORECAST)
    await page.get_by_label("name").fill("Berlin")
    await refuse_once(page, "**/console/try")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("503")
    await expect(page.get_by_label("name")).to_have_value("Berlin")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_refusal_is_reported_next_to_the_input(page: Page) -> None:
    await page.goto(FORECAST)
    await page.get_by_label("name").fill("Berlin")
    await page.locator("form [name=csrf]").last.evaluate(
        "(it) => { it.value = 'of another page'; }"
    )
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("Reload the page")
    await expect_accessible(page)
    await expect(page.get_by_label("name")).to_have_value("Berlin")


async def test_arguments_can_be_json(page: Page) -> None:
    await page.goto(FORECAST)
    await page.get_by_role("button", name="Edit as JSON").click()
    await page.get_by_label("Arguments as JSON").fill('{"place": {"name": "Bonn"}}')
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    await page.get_by_role("button", name="Edit as form").click()
    await expect(page.get_by_label("name")).to_have_value("Bonn")


async def test_a_call_can_be_explained_without_running_it(page: Page) -> None:
    await page.goto(FORECAST)
    await page.get_by_label("name").fill("Berlin")
    await page.get_by_role("button", name="Explain without running").click()
    await expect(page.get_by_text("Nothing was run or charged.")).to_be_visible()
    await page.get_by_label("Agent").select_option("reader")
    await page.get_by_role("button", name="Explain without running").click()
    await expect(page.get_by_role("heading", name="Would be refused")).to_be_visible()
    await expect_accessible(page)


async def test_a_failing_tool_shows_advice(page: Page) -> None:
    await page.goto("/console/try?tenant_id=acme&user_id=ann&tool=weather:calibrate")
    await page.get_by_label("station").fill("south")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("heading", name="TOOL_FAILED")).to_be_visible()
    await expect(page.get_by_text("What to do:")).to_be_visible()
    await expect_accessible(page)


async def test_a_running_call_can_be_cancelled(page: Page) -> None:
    await page.goto("/console/try?tenant_id=acme&user_id=ann&tool=weather:radar")
    await page.get_by_label("seconds").fill("30")
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("Call cancelled")).to_be_visible()


async def test_markup_in_a_result_is_text(page: Page) -> None:
    await page.goto(f"/console/try?tenant_id=acme&user_id=ann&tool={HOSTILE_TOOL_NAME}")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.locator("#model-text")).to_contain_text(READABLE)
    await expect_accessible(page)
