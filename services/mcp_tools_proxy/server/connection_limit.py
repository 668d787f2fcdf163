"""Bounds the connections of the process, since files and servers need descriptors too."""

import asyncio
import resource
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import structlog

from mcp_tools_proxy.server.http_protocol import BoundedProtocol

LOG_INTERVAL_S = 10.0
"""Seconds between two log lines about refused connections."""

MAX_DESCRIPTORS = 65_536
"""The soft limit that the process sets itself at most: what it may open, when all is well."""

MACOS_DESCRIPTORS = 10_240
"""More is refused on macOS, whose hard limit is infinite, when the system allows fewer."""

log = structlog.get_logger()


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, within MAX_DESCRIPTORS; log the result.

    Systems give a shell 1,024 (macOS 256) so that old programs work: 768 connections, or 192.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    for most in (MAX_DESCRIPTORS, MACOS_DESCRIPTORS):
        wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
        if soft >= wanted:
            break
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    log.info("service.descriptors", limit=soft, connections=_limit())


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
                problem="client connections use three quarters of the process's file descriptors; "
                "raise the hard limit (ulimit -Hn), or find the clients that open them",
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
