"""Listening sockets: copies that accept more connections per turn, and their drain."""

import asyncio
import ctypes
import resource
import select
import socket
import struct
import sys

MAX_LISTENERS = 16
"""Sockets of one address, and so connections that are accepted in one turn."""

DESCRIPTORS_PER_LISTENER = 64
"""A process that may open few descriptors gets fewer copies: 256 descriptors allow 4 sockets."""


def copies_of(listener: socket.socket) -> list[socket.socket]:
    """Duplicate a listener; the copies share its queue of connections and its socket options."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    listeners = MAX_LISTENERS
    if descriptors != resource.RLIM_INFINITY:
        listeners = min(listeners, descriptors // DESCRIPTORS_PER_LISTENER)
    return [listener.dup() for _ in range(listeners - 1)]


ACCEPT_S = 0.05
"""Seconds for handshakes that have begun to be completed."""

MAX_BACKLOG = 4096
"""Connections that are waited for at most, where further ones cannot be kept out."""

_SO_ATTACH_FILTER = 26
_LOAD_BYTE, _JUMP_IF_SET, _RETURN = 0x30, 0x45, 0x06
_FLAGS_OFFSET, _SYN = 13, 0x02
_NO_SYN = (
    (_LOAD_BYTE, 0, 0, _FLAGS_OFFSET),
    (_JUMP_IF_SET, 0, 1, _SYN),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFFFFFF),
)
"""A program of classic BPF, run on a TCP header and what follows: drops a segment with SYN."""


async def drain_listener(listener: socket.socket) -> None:
    """Wait until the event loop has accepted all connections that clients take for open.

    A listener that is closed resets those that were not accepted, and their clients cannot know
    whether a request was read. Where the system allows it, new ones are kept out meanwhile: their
    first segment is dropped, the client's system sends it again after a second, and is then
    refused before anything was sent.
    """
    drop_new_connections(listener)
    await asyncio.sleep(ACCEPT_S)
    backlog = select.poll()
    backlog.register(listener.fileno(), select.POLLIN)
    for _ in range(MAX_BACKLOG):
        if not backlog.poll(0):
            return
        await asyncio.sleep(0)  # the loop accepts at least one in each turn


def drop_new_connections(listener: socket.socket) -> bool:
    """Attach the filter; return whether the system allows it: Linux may ask for CAP_NET_ADMIN."""
    if sys.platform != "linux":
        return False
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in _NO_SYN))
    filter_ = struct.pack("HL", len(_NO_SYN), ctypes.addressof(program))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
    except OSError:
        return False
    return True
