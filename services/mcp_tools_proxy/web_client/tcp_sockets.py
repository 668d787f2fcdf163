"""Sockets with TCP options, so that a peer that vanished is noticed."""

import errno
import socket
from collections.abc import Callable, Mapping

from aiohttp import AddrInfoType

SocketFactory = Callable[[AddrInfoType], socket.socket]

LONGEST_MS = 2**31 - 1
"""Largest value of TCP_USER_TIMEOUT, in milliseconds."""

# seconds, seconds, probes
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


NOT_DIALLED = "has an address that is not allowed"
"""Text of the OSError of ``checked_sockets``; aiohttp joins those of several addresses."""


def checked_sockets(allows: Callable[[str], bool], open_socket: SocketFactory) -> SocketFactory:
    """Return a factory that raises OSError for addresses that ``allows`` refuses.

    It is asked for each connection, after DNS: a name may lead elsewhere than the time before.
    """

    def open_checked(address: AddrInfoType) -> socket.socket:
        if not allows(str(address[4][0])):
            raise OSError(errno.EACCES, NOT_DIALLED)
        return open_socket(address)

    return open_checked


def plain_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket without options."""
    return socket.socket(*address[:3])


def keepalive_sockets() -> SocketFactory:
    """Return a factory of sockets with TCP keep-alive, for connections that may be silent.

    An event stream may be silent for hours; without keep-alive a vanished peer is never noticed.
    """
    return _sockets_with({"SO_KEEPALIVE": 1, **_KEEP_ALIVE})


def timeout_sockets(unconfirmed_s: float) -> SocketFactory:
    """Return a factory of sockets that fail when sent data stays unconfirmed for so long.

    Otherwise the system would resend for many minutes to a peer that has disappeared. Linux only.
    """
    return _sockets_with({"TCP_USER_TIMEOUT": min(int(unconfirmed_s * 1000), LONGEST_MS)})


def _sockets_with(options: Mapping[str, int]) -> SocketFactory:
    """Return a factory of sockets with options, by name; unknown ones are left out.

    Which options there are depends on the platform.
    """

    def open_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        opened = socket.socket(family, kind, protocol)
        for option, value in options.items():
            level = socket.SOL_SOCKET if option.startswith("SO_") else socket.IPPROTO_TCP
            if hasattr(socket, option):
                opened.setsockopt(level, getattr(socket, option), value)
        return opened

    return open_socket
