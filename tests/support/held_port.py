"""Ports that other tests cannot take, for servers that are stopped or not yet started."""

import secrets
import socket
from contextlib import suppress

PORTS = range(20_000, 32_768)
"""Below the ephemeral ports: a connection once took a port before its server did."""


def free_port() -> int:
    while True:
        port = secrets.choice(PORTS)  # every worker has the same seed for ``random``
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
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
