"""Copies of a listening socket, so that the event loop accepts several connections in each turn.

libuv accepts one connection of a listener per turn of its loop. While each turn also served 32
busy callers, the last of 64 new clients waited 0.45 s and the last of 256 over 5 s; asyncio's own
loop accepts as many as wait.
"""

import resource
import socket

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
