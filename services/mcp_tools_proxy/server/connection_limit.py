"""Limits the process's connections, because files and servers also need file descriptors."""

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
"""Maximum soft limit that the process sets."""

MACOS_DESCRIPTORS = 10_240
"""macOS reports an infinite hard limit, but can refuse higher values."""

log = structlog.get_logger()


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, up to MAX_DESCRIPTORS; log the result.

    Shells have 1,024 by default (macOS: 256), which allow 768 connections (192).
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

    Otherwise, a client with many connections prevented the gateway from reading a changed tokens
    file and from connecting to a server.
    """

    def __init__(self) -> None:
        self._logged_at: float | None = None

    def allows(self, connections: int) -> bool:
        """Return whether this number of connections is allowed; log refusals."""
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
    """Closes connections above ``limit`` before reading from them."""

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
        """Accept the connection, or close it immediately."""
        super().connection_made(transport)
        if not self._limit.allows(len(self.connections)):
            transport.abort()
