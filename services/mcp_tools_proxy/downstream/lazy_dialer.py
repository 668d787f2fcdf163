"""Connects to servers; what that needs is imported with the first one.

The SDK and aiohttp take half a second and 40 MB, which a gateway without servers need not spend.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio.abc import AsyncResource

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks
from mcp_tools_proxy.downstream.connection import (
    ConnectAttempt,
    Connection,
    OnListChanged,
    ServerOutput,
    SessionAccess,
)
from mcp_tools_proxy.downstream.module_import import import_in_thread

if TYPE_CHECKING:
    from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer

_MODULE = "mcp_tools_proxy.downstream.mcp_client.dialer"


class LazyDialer(AsyncResource):
    """Opens a Dialer when it is first needed; ``dial`` is a Dial.

    ``networks`` are those that servers may be in.
    """

    def __init__(self, networks: ServerNetworks = ANY_NETWORK) -> None:
        self._networks = networks
        self._dialer: Dialer | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<LazyDialer {self._dialer}>"

    async def aclose(self) -> None:
        """Close every HTTP connection."""
        if self._dialer is not None:
            await self._dialer.aclose()

    @asynccontextmanager
    async def dial(
        self,
        config: ServerConfig,
        on_list_changed: OnListChanged,
        access: SessionAccess | None = None,
        output: ServerOutput | None = None,
        attempt: ConnectAttempt | None = None,
    ) -> AsyncIterator[Connection]:
        """Connect and negotiate; see Dial."""
        dialer = self._dialer or await self._open()
        dialled = dialer.dial(config, on_list_changed, access, output, attempt)
        async with dialled as connection:
            yield connection

    async def _open(self) -> "Dialer":
        """Return the dialer; the import is in a thread, as it would stop the event loop."""
        async with self._opening:
            if self._dialer is None:
                module = await import_in_thread(_MODULE)
                self._dialer = module.Dialer(self._networks)
            return self._dialer
