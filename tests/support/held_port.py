"""Ports that other tests cannot take, for servers that are stopped or not yet started."""

import os
import secrets
import socket
from collections import deque
from contextlib import suppress

PORTS = range(20_000, 32_768)
"""Below the ephemeral ports: a connection once took a port before its server did."""


_CLAIMED_PORTS = 50
_claims: deque[int] = deque()
"""Descriptors of the latest claims."""


def free_port() -> int:
    """Return a port, and claim it by its number in UDP.

    Two programs of test runs at the same time were given one port, and the second did not start.
    """
    while True:
        port = secrets.choice(PORTS)  # every worker has the same seed for ``random``
        with (
            suppress(OSError),
            socket.socket(type=socket.SOCK_DGRAM) as claim,
            socket.socket() as probe,
        ):
            claim.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            _claims.append(claim.detach())
            if len(_claims) > _CLAIMED_PORTS:
                os.close(_claims.popleft())
            return port


def hold_port(host: str, port: int = 0) -> socket.socket:
    """Bind a port without listening; its server listens with ``reuse_port``.

    Tests in other processes took a stopped server's port: it could not start again, or its clients
    reached another server.
    """
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(address)
    return holder
