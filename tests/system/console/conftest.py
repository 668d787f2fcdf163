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
    """Keep one event loop, which the browser is driven by."""
    return "asyncio"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Start the gateway."""
    with running_demo(tmp_path_factory.mktemp("demo")) as started:
        yield started


@pytest.fixture(scope="session")
async def chromium(anyio_backend: str) -> AsyncIterator[Browser]:
    """Start the browser."""
    async with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
async def admin_state(chromium: Browser, demo: Demo) -> StorageState:
    """Sign in by the admin token, once; return what the browser keeps of it.

    A tool is run there, so that each test, in any order, finds it among the last tries.
    """
    context = await chromium.new_context(base_url=demo.url)
    page = await context.new_page()
    await sign_in(page, ADMIN)
    await run_a_tool(page)
    state = await context.storage_state()
    await context.close()
    return state


@pytest.fixture
def options() -> Mapping[str, Any]:
    """Return how a test's browser differs from the others; tests give it by ``parametrize``."""
    return {}


@pytest.fixture
async def stranger(
    chromium: Browser, demo: Demo, options: Mapping[str, Any]
) -> AsyncIterator[Page]:
    """Open a page of a browser that is not signed in."""
    async with new_page(chromium, demo.url, **options) as page:
        yield page


@pytest.fixture
async def page(
    chromium: Browser, demo: Demo, admin_state: StorageState, options: Mapping[str, Any]
) -> AsyncIterator[Page]:
    """Open a page of a browser that is signed in by the admin token."""
    async with new_page(chromium, demo.url, storage_state=admin_state, **options) as page:
        yield page
