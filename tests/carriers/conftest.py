"""Tests that take ``carrier`` run over each one; module fixtures can be shared per carrier."""

from collections.abc import AsyncIterator

import pytest

from tests.carriers.clients import McpClient
from tests.carriers.gateway import CARRIERS, Carrier, Gateway, params_of, shared_gateway


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run a module's tests and its fixtures in one event loop."""
    return "asyncio"


@pytest.fixture(scope="module", params=params_of(CARRIERS))
def carrier(request: pytest.FixtureRequest) -> Carrier:
    found: Carrier = request.param
    return found


@pytest.fixture(scope="module")
async def gateway(
    carrier: Carrier, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    """Run one gateway for all tests of a module, with the server's tool ``meta``."""
    async with shared_gateway(carrier, tmp_path_factory.mktemp("gateway"), "meta") as it:
        yield it


@pytest.fixture(scope="module")
async def client(gateway: Gateway) -> McpClient:
    return await gateway.connect()
