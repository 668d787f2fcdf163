"""Pages of gateways with other settings."""

from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from tests.support.program import started
from tests.support.program_launch import run
from tests.system.console.demo_gateway import ADMIN
from tests.system.console.opened_pages import expect_accessible, new_page
from tests.system.console.people import sign_in

CONSOLE: dict[str, Any] = {"MCP_PROXY_CONSOLE": "true"}


async def test_a_one_time_address_signs_in(chromium: Browser, tmp_path: Path) -> None:
    with started(tmp_path, CONSOLE) as program:
        _, printed, _ = run(tmp_path, "console", "--port", str(program.port), **CONSOLE)
        async with new_page(chromium, f"http://127.0.0.1:{program.port}") as page:
            await page.goto(printed.strip())
            await expect_accessible(page)
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_text("one-time link")).to_be_visible()


async def test_the_tokens_page_explains_gateways_without_tokens(
    chromium: Browser, tmp_path: Path
) -> None:
    with started(tmp_path, {**CONSOLE, "MCP_PROXY_ADMIN_TOKEN": ADMIN}) as program:
        async with new_page(chromium, f"http://127.0.0.1:{program.port}") as page:
            await sign_in(page, ADMIN)
            await page.goto("/console/tokens")
            await expect(page.get_by_text("does not issue tokens")).to_be_visible()
            await expect_accessible(page)
