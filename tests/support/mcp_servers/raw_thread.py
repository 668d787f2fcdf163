"""The raw server in a separate thread, so that its work is not in the test's event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.other_loop import in_another_loop


@asynccontextmanager
async def running_raw_in_thread(**options: Any) -> AsyncIterator[RawServer]:
    async with in_another_loop(running_raw(**options)) as other:
        yield other.opened
