"""Opens pages of the console as a browser does, and records what goes wrong."""

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
"""How long a browser waits for what has to come; alone it comes within a second."""

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
MAX_PAGE_BYTES = 150_000
_EXPECTED = (
    "Failed to load resource: the server responded with a status of",
    "htmx:sendAbort",
    "htmx:afterRequest",
)
"""Messages of what is no mistake: an answer that says no, and a request that a person ended."""

BY_THE_TEST = "x-by-the-test"
"""A header of an answer that a test gives in the gateway's place: it may be an error."""

_PAGE_REQUESTS = ("document", "xhr", "fetch", "eventsource")
"""What the gateway may refuse: a form that is filled in wrongly, a page that is not there."""


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Browser]:
    """Start Debian's Chromium, where it is there as the one without a window: a third of the CPU.

    Fails the test, naming the command, if neither is there.
    """
    path = shutil.which("chromium-headless-shell") or installed("chromium")
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


class PageProblems:
    """What a page did that no page may do: messages on its console, errors, foreign requests."""

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
        if BY_THE_TEST in response.headers:
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
    """Open a page in a window that nobody has used; what no page may do fails the test in the end.

    ``options`` are those of the window.
    """
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
    """Return the bytes of a page with all that it loads, but for pictures of documents."""
    return int(await page.evaluate(_SIZES))


async def faults_of(page: Page) -> Sequence[str]:
    """Return what axe and the layout find, wide and narrow, light and dark.

    Between wide and narrow only the layout is other than at both.
    """
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
    """Fail with what axe and the layout find."""
    faults = await faults_of(page)
    if faults:
        pytest.fail("\n".join(faults))
