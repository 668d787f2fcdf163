"""The listening socket: binds it, duplicates it, and drains it before it is closed."""

import asyncio
import ctypes
import errno
import resource
import select
import socket
import struct
import sys


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket. Raises OSError if the address is unknown or in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # a name invalid in DNS
        raise OSError(errno.EADDRNOTAVAIL, "not a host name") from None
    family, kind, proto, _, address = found[0]
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


MAX_LISTENERS = 16
"""Sockets per address, and so connections accepted per turn."""

DESCRIPTORS_PER_LISTENER = 64
"""Fewer copies with few descriptors: 256 allow 4 sockets."""


def copies_of(listener: socket.socket) -> list[socket.socket]:
    """Duplicate a listener; the copies share its connection queue and socket options.

    It is made non-blocking first: the copy of a blocking one is blocking, and so are then those of
    all workers. A worker that served hung in ``accept`` while another one started.
    """
    listener.setblocking(False)
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    listeners = MAX_LISTENERS
    if descriptors != resource.RLIM_INFINITY:
        listeners = min(listeners, descriptors // DESCRIPTORS_PER_LISTENER)
    return [listener.dup() for _ in range(listeners - 1)]


ACCEPT_S = 0.05
"""Seconds to complete started handshakes."""

MAX_BACKLOG = 4096
"""Maximum connections to wait for if further ones cannot be kept out."""

_SO_ATTACH_FILTER = 26
_LOAD_BYTE, _JUMP_IF_SET, _RETURN = 0x30, 0x45, 0x06
_FLAGS_OFFSET, _SYN = 13, 0x02
_NO_SYN = (
    (_LOAD_BYTE, 0, 0, _FLAGS_OFFSET),
    (_JUMP_IF_SET, 0, 1, _SYN),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFFFFFF),
)
"""Classic BPF program, run on the TCP header and payload, that drops segments with SYN."""


async def drain_listener(listener: socket.socket) -> None:
    """Wait until the event loop has accepted all established connections.

    Closing a listener resets connections that are not accepted, and their clients cannot know
    whether a request was read. If the system allows it, SYNs of new ones are dropped: the client's
    system repeats them after a second, and is then refused before sending data.
    """
    drop_new_connections(listener)
    await asyncio.sleep(ACCEPT_S)
    backlog = select.poll()
    backlog.register(listener.fileno(), select.POLLIN)
    for _ in range(MAX_BACKLOG):
        if not backlog.poll(0):
            return
        await asyncio.sleep(0)  # the loop accepts at least one per turn


def drop_new_connections(listener: socket.socket) -> bool:
    """Attach the filter; return whether the system allows it: Linux may require CAP_NET_ADMIN."""
    if sys.platform != "linux":
        return False
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in _NO_SYN))
    filter_ = struct.pack("HL", len(_NO_SYN), ctypes.addressof(program))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
    except OSError:
        return False
    return True
