"""A port that no other test takes while the server to which it belongs is stopped."""

import socket


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
