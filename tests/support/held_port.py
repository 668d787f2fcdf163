"""Ports that no other test takes: of a server to be started, and of one that is stopped."""

import secrets
import socket
from contextlib import suppress

PORTS = range(20_000, 32_768)
"""Below those that the system gives to connections, one of which took a port before its server."""


def free_port() -> int:
    """Return a port that nobody listens on."""
    while True:
        port = secrets.choice(PORTS)  # every worker has the same seed for ``random``
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def hold_port(host: str, port: int = 0) -> socket.socket:
    """Bind a port without listening; who listens on it does so with ``reuse_port``.

    Tests in other processes took a stopped server's port: it could not start again, or its clients
    met another server.
    """
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(address)
    return holder
