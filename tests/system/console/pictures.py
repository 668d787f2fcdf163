"""Takes the screenshots of the documentation: python -m tests.system.console.pictures."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import chdir
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.async_api import Browser, Page

from mcp_tools_proxy.console.navigation import PARTS, Part
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.program_launch import ROOT
from tests.system.console.approver import approver, pay
from tests.system.console.demo_gateway import ADMIN, HANDBOOK, TENANT, running_demo
from tests.system.console.opened_pages import FONTS, HEIGHT, WIDTH, running_chromium
from tests.system.console.people import run_a_tool, sign_in

FOLDER = ROOT / "docs/images"
MAX_BYTES = 150_000
COLOURS = 128


def picture_of(part: Part) -> Path:
    return FOLDER / f"console-{part.title.lower().replace(' ', '-')}.png"


async def _compare(page: Page) -> None:
    await page.goto("/console/visibility?compare=yes&other_agent=helpdesk")


async def _try_a_tool(page: Page) -> None:
    await run_a_tool(page)
    await page.evaluate("scrollTo(0, 0)")


async def _read_a_document(page: Page) -> None:
    await page.goto(f"/console/documents/read?tenant_id={TENANT}&doc_id={HANDBOOK}&page=2")


async def _show_budgets(page: Page) -> None:
    await page.goto("/console/limits?tenant_id=initech")


_SCENES: Mapping[str, Callable[[Page], Awaitable[None]]] = {
    "/console/visibility": _compare,
    "/console/try": _try_a_tool,
    "/console/documents": _read_a_document,
    "/console/limits": _show_budgets,
}
"""Views of the sections that do not show their first page."""


async def _take(page: Page, part: Part) -> None:
    scene = _SCENES.get(part.path)
    if scene is None:
        await page.goto(part.path)
    else:
        await scene(page)
    await _save(page, part)


async def _save(page: Page, part: Part) -> None:
    await page.evaluate(FONTS)
    shot = Image.open(BytesIO(await page.screenshot())).convert("RGB")
    shot.quantize(COLOURS).save(picture_of(part), optimize=True)


async def _take_all(url: str) -> None:
    async with running_chromium() as browser:
        page = await browser.new_page(
            base_url=url, viewport={"width": WIDTH, "height": HEIGHT}, locale="en-GB"
        )
        await sign_in(page, ADMIN)
        for part in PARTS:
            if part.right is not OperatorRight.APPROVE:
                await _take(page, part)
            else:
                await _take_approval(browser, part)


async def _take_approval(browser: Browser, part: Part) -> None:
    """Show a call that waits; the demo's administrator may not see any."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        async with approver(browser) as (page, http, token):
            waiting = await pay(http, token, "ACME Office Supplies")
            await page.goto(f"{part.path}/{waiting['error']['details']['approval_id']}")
            await _save(page, part)


def main() -> None:
    """Write a screenshot of each section of the console to docs/images."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_demo(Path(folder), has_markup=False) as demo,
    ):
        asyncio.run(_take_all(demo.url))


if __name__ == "__main__":
    main()
