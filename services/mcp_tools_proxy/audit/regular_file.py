"""Opens files of an audit: only regular files, never through a link.

A program that can write to the folder of the audit could otherwise place a link there: records
would be appended to another file of the gateway. A FIFO would block the writer, and a device would
drop the records.
"""

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class NotRegularFile(OSError):
    """The path is a link, a folder, a FIFO or a device, or the file has a second name."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EPERM, f"{path.name} {problem}; move it out of the way")


def open_to_read(path: Path) -> int:
    """Open a file and return its descriptor. Raises OSError."""
    return _opened(path, os.O_RDONLY)


def open_to_write(path: Path, flags: int, mode: int) -> int:
    """Open a file, which is created if it is missing; return its descriptor. Raises OSError.

    A file with a second hard link is refused: its other name may belong to another file of the
    gateway.
    """
    descriptor = _opened(path, os.O_RDWR | os.O_CREAT | flags, mode)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise NotRegularFile(path, "has a second name (a hard link)")
    return descriptor


def _opened(path: Path, flags: int, mode: int = 0) -> int:
    try:
        descriptor = os.open(path, flags | _FLAGS, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise NotRegularFile(path, "is a symbolic link") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFile(path, "is not a regular file")
    return descriptor
