"""One gateway and one browser for all tests of the console."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest
from playwright.async_api import (
    Browser,
    Page,
    StorageState,
)

from tests.system.console.demo_gateway import ADMIN, Demo, running_demo
from tests.system.console.opened_pages import new_page, running_chromium
from tests.system.console.people import run_a_tool, sign_in


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Keep one event loop, which drives the browser."""
    return "asyncio"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo")) as started:
        yield started


@pytest.fixture(scope="session")
async def chromium(anyio_backend: str) -> AsyncIterator[Browser]:
    async with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
async def admin_state(chromium: Browser, demo: Demo) -> StorageState:
    """Sign in once with the admin token; return the browser's storage.

    Runs a tool, so that each test finds it among the last tries in any order."""
    context = await chromium.new_context(base_url=demo.url)
    page = await context.new_page()
    await sign_in(page, ADMIN)
    await run_a_tool(page)
    state = await context.storage_state()
    await context.close()
    return state


@pytest.fixture
def options() -> Mapping[str, Any]:
    """Return the browser options of a test, set by ``parametrize``."""
    return {}


@pytest.fixture
async def stranger(
    chromium: Browser, demo: Demo, options: Mapping[str, Any]
) -> AsyncIterator[Page]:
    async with new_page(chromium, demo.url, **options) as page:
        yield page


@pytest.fixture
async def page(
    chromium: Browser, demo: Demo, admin_state: StorageState, options: Mapping[str, Any]
) -> AsyncIterator[Page]:
    async with new_page(chromium, demo.url, storage_state=admin_state, **options) as page:
        yield page
