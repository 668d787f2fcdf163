"""Bounds the connections of the process, since files and servers need descriptors too."""

import asyncio
import resource
import time
from collections.abc import Callable, Collection

import structlog

from mcp_tools_proxy.server.http_protocol import BoundedProtocol

LOG_INTERVAL_S = 10.0
"""Seconds between two log lines about refused connections."""

log = structlog.get_logger()


class ConnectionLimit:
    """Reserves a quarter of the process's descriptors for files, servers, Redis and Retrieval.

    Without the limit, a client that opened enough connections kept the gateway from reading a
    changed tokens file and from connecting to a server.
    """

    def __init__(self) -> None:
        self._logged_at: float | None = None

    def allows(self, connections: int) -> bool:
        """Return whether the process may hold so many connections; log if it may not."""
        limit = _limit()
        if limit is None or connections <= limit:
            return True
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            log.warning(
                "connections.refused",
                limit=limit,
                problem="three quarters of the descriptors that the process may have are "
                "connections of callers; raise its limit (ulimit -n), or see who opens them",
            )
        return False


def _limit() -> int | None:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if descriptors == resource.RLIM_INFINITY else descriptors * 3 // 4


class LimitedProtocol(BoundedProtocol):
    """Closes connections that ``limit`` does not allow, before it reads from them."""

    def __init__(
        self,
        *args: object,
        limit: ConnectionLimit,
        is_stopping: Callable[[], bool],
        uploads: Collection[tuple[str, str]] = (),
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.uploads = uploads
        self.is_stopping = is_stopping
        self._limit = limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or close it at once."""
        super().connection_made(transport)
        if not self._limit.allows(len(self.connections)):
            transport.abort()
