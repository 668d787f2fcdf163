"""Fixtures of several modules; a module can override a fixture under the same name."""

from collections.abc import AsyncIterator, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.downstream.mcp_client import dialer
from mcp_tools_proxy.storage import cache_folder
from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import Service, running


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run a module's tests and the services that they share in one event loop."""
    return "asyncio"


@pytest.fixture(scope="module")
def shared_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return settings of a service that a module's tests share without changing it.

    Its folders are absolute, because it outlives the folder of each test."""
    folder: Path = tmp_path_factory.mktemp("shared")
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_folder, "default_folder", lambda: folder / "cache")
        patch.setattr(dialer, "CONNECT_S", BOUND_S)
        yield {"config_dir": folder / "config", "documents_path": folder / "documents"}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Run the service without servers, with the seed document."""
    async with running() as started:
        yield started


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with running_raw() as started:
        yield started
