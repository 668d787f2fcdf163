"""Opens pages of the console in a browser and records problems."""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)

from tests.system.programs import installed

WAIT_MS = 60_000
"""Seconds that a browser waits; without load everything appears within one."""

WIDTH, HEIGHT = 1440, 900
MIDDLE, NARROW = 1024, 360
_VIEWS: Sequence[tuple[int, Literal["light", "dark"]]] = (
    (WIDTH, "light"),
    (WIDTH, "dark"),
    (MIDDLE, "dark"),
    (NARROW, "dark"),
    (NARROW, "light"),
)

AXE = Axe().axe_script
_AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_RUN_AXE = """(tags) => axe.run({runOnly: tags, resultTypes: ["violations"]}).then((found) =>
  found.violations.flatMap(({id, nodes}) => nodes.map((node) =>
    `axe: ${id}: ${node.target.join(" ")}: ${node.failureSummary}`)))"""
_LAYOUT = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8").partition("\n")[2]
FONTS = "document.fonts.ready.then(() => undefined)"
OPEN_DETAILS = "document.querySelectorAll('details').forEach((it) => { it.open = true; })"
_PLANTED = """() => [
  ...[...document.querySelectorAll("[data-planted]")].map((it) => `planted: ${it.outerHTML}`),
  ...(window.planted === undefined ? [] : [`a planted script ran: ${window.planted}`]),
  ...[...document.querySelectorAll("a[href^='javascript:' i], [onerror], [onmouseover], [onfocus]")]
    .map((it) => `runs a script: ${it.outerHTML}`)]"""
_SIZES = """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
  .filter((it) => it.initiatorType !== "img")
  .reduce((sum, it) => sum + it.decodedBodySize, 0)"""
MAX_PAGE_BYTES = 160_000
_EXPECTED = (
    "Failed to load resource: the server responded with a status of",
    "htmx:sendAbort",
    "htmx:afterRequest",
)
"""Messages that are not errors: a refusal, and a request that the user cancelled."""

SET_BY_TEST = "x-by-the-test"
"""A response header set by tests that replace the gateway: the response may be an error."""

_PAGE_REQUESTS = ("document", "xhr", "fetch", "eventsource")
"""Expected refusals: an invalid form, a missing page."""


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Browser]:
    """Start Debian's Chromium, headless if installed, which uses a third of the CPU.

    Fails the test and names the install command if neither is present."""
    path = shutil.which("chromium-headless-shell") or installed("chromium")
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


class PageProblems:
    """Forbidden actions of a page: console messages, errors, foreign requests."""

    def __init__(self, page: Page, origin: str) -> None:
        self.found: list[str] = []
        self._origin = origin
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.found.append(f"error of a script: {error}"))
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)
        page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_EXPECTED):
            self.found.append(f"on the console: {message.text}")

    def _on_response(self, response: Response) -> None:
        if SET_BY_TEST in response.headers:
            return
        is_page = response.request.resource_type in _PAGE_REQUESTS
        if response.status >= (500 if is_page else 400):
            self.found.append(f"answered with {response.status}: {response.url}")

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.found.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self._origin}/", "data:", "blob:")):
            self.found.append(f"a request to another origin: {request.url}")


@asynccontextmanager
async def new_page(browser: Browser, origin: str, **options: Any) -> AsyncIterator[Page]:
    """Open a page in a new window; forbidden actions fail the test at its end.

    ``options`` are those of the window."""
    usual: dict[str, Any] = {
        "timezone_id": "Europe/Berlin",
        "locale": "en-GB",
        "viewport": {"width": WIDTH, "height": HEIGHT},
    }
    context = await browser.new_context(
        base_url=origin,
        reduced_motion="reduce",
        **{**usual, **options},
    )
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    problems = PageProblems(page, origin)
    try:
        yield page
        assert not problems.found, problems.found
        assert await page.evaluate(_PLANTED) == []
    finally:
        await context.close()


async def size_of(page: Page) -> int:
    """Return the size of a page and its resources, except document images."""
    return int(await page.evaluate(_SIZES))


async def faults_of(page: Page) -> Sequence[str]:
    """Return the findings of axe and the layout check, wide and narrow, light and dark.

    In between, only the layout can differ."""
    await page.evaluate(FONTS)
    await page.evaluate(AXE)
    found: list[str] = []
    for width, scheme in _VIEWS:
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        if width == NARROW:
            await page.evaluate(OPEN_DETAILS)
        await page.emulate_media(color_scheme=scheme)
        faults = await page.evaluate(_LAYOUT)
        if width != MIDDLE:
            faults += await page.evaluate(_RUN_AXE, _AXE_TAGS)
        found += [f"{width} px, {scheme}: {fault}" for fault in faults]
    await page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    return found


async def expect_accessible(page: Page) -> None:
    faults = await faults_of(page)
    if faults:
        pytest.fail("\n".join(faults))
