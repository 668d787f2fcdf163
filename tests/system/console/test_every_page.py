"""Every page of the console in a browser: accessible, and without foreign requests."""

import pytest
from playwright.async_api import Page
from starlette.routing import Match, Route

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.system.console.console_pages import NO_PAGES, PAGES, SIGNED_OUT_PAGES, ConsolePage
from tests.system.console.demo_gateway import ADMIN, Demo
from tests.system.console.opened_pages import MAX_PAGE_BYTES, expect_accessible, size_of


@pytest.mark.parametrize("wanted", PAGES, ids=lambda it: it.name)
async def test_a_page_is_accessible(page: Page, demo: Demo, wanted: ConsolePage) -> None:
    await _check(page, demo, wanted)


@pytest.mark.parametrize("wanted", SIGNED_OUT_PAGES, ids=lambda it: it.name)
async def test_a_page_before_the_sign_in_is_accessible(
    stranger: Page, demo: Demo, wanted: ConsolePage
) -> None:
    await _check(stranger, demo, wanted)


async def _check(page: Page, demo: Demo, wanted: ConsolePage) -> None:
    response = await page.goto(wanted.address(demo))
    assert response is not None
    assert response.status == wanted.status
    assert await page.get_by_role("heading", level=1).count() == 1
    assert await size_of(page) <= MAX_PAGE_BYTES
    await expect_accessible(page)


async def test_every_page_is_tested(page: Page) -> None:
    """Each address that answers GET is a page above or a listed exception."""
    app = create_app(Settings.model_validate({"console": True, "admin_token": ADMIN}))
    routes = [it for it in app.state.console.routes() if it.path.startswith("/console")]
    missing = [it.path for it in routes if it.path not in NO_PAGES and not _is_shown(it)]
    for path in missing:
        response = await page.request.get(path, fail_on_status_code=False)
        assert response.status == 405, f"{path} is a page that no test looks at"


def _is_shown(route: Route) -> bool:
    scopes = (
        {"type": "http", "method": "GET", "path": it.path} for it in [*PAGES, *SIGNED_OUT_PAGES]
    )
    return any(route.matches(scope)[0] is Match.FULL for scope in scopes)
