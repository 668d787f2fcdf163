from collections.abc import AsyncIterator

import pytest

from tests.support.mcp_endpoint import Served, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Serve MCP with the gateway's own tools and without servers."""
    async with serving() as served:
        yield served
