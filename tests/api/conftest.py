"""Fixtures of several modules; a module that needs another service has one of that name."""

from collections.abc import AsyncIterator

import pytest

from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import Service, running


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Run the service without servers, with the seed document."""
    async with running() as started:
        yield started


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with running_raw() as started:
        yield started
