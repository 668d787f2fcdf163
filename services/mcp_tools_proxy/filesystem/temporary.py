"""Temporary files without a name: nothing is left of them, however the process ends."""

import tempfile
from io import FileIO


def open_temporary(prefix: str) -> FileIO:
    """Open one. Raises OSError.

    It is not buffered: a disk that is full is told by ``write_all``, not when the file is closed.
    """
    return tempfile.TemporaryFile(prefix=prefix, buffering=0)


def write_all(file: FileIO, content: bytes) -> None:
    """Write all of ``content``, which one write may not. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
