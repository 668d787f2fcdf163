"""A pipe of minimum size that is never read, for a program to write to."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

PIPE_BYTES = 4096


@contextmanager
def unread_pipe() -> Iterator[int]:
    """Yield the writing end; the other end is never read."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        yield writing
    finally:
        os.close(reading)
        os.close(writing)
