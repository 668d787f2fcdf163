"""How many connections one process holds: some of its descriptors are for other things."""

import asyncio
import resource
import time

import structlog

from mcp_tools_proxy.server.http_protocol import BoundedProtocol

LOG_INTERVAL_S = 10.0
"""How often it is said that connections are refused, in seconds."""

log = structlog.get_logger()


class ConnectionLimit:
    """Leaves a quarter of the process's descriptors to files, servers, Redis and Retrieval.

    Without that whoever opened connections enough kept the gateway from reading a changed tokens
    file, and from reaching a server.
    """

    def __init__(self) -> None:
        self._logged_at: float | None = None

    def allows(self, connections: int) -> bool:
        """Return whether the process may hold that many; say so where it may not."""
        most = _most()
        if most is None or connections <= most:
            return True
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            log.warning(
                "connections.refused",
                limit=most,
                problem="three quarters of the descriptors that the process may have are "
                "connections of callers; raise its limit (ulimit -n), or see who opens them",
            )
        return False


def _most() -> int | None:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if descriptors == resource.RLIM_INFINITY else descriptors * 3 // 4


class LimitedProtocol(BoundedProtocol):
    """Closes connections that ``limit`` does not allow, before anything is read of them."""

    def __init__(self, *args: object, limit: ConnectionLimit, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._limit = limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, or close the connection."""
        super().connection_made(transport)
        if not self._limit.allows(len(self.connections)):
            transport.abort()
