"""Files that are written whole, and temporary ones."""

import os
import re
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from uuid import uuid4

_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.tmp")


def remove_unfinished(root: Path) -> None:
    """Remove what killed writers left in a folder and those below it, links not followed.

    Call it only under the lock that all writers of the folder take. Raises OSError.
    """
    for folder, _, names in os.walk(root):
        for name in filter(_UNFINISHED.fullmatch, names):
            Path(folder, name).unlink(missing_ok=True)


def write_atomically(
    path: Path,
    content: bytes | Iterable[bytes],
    *,
    new_file_mode: int = 0o666,
    overwrite: bool = True,
) -> os.stat_result:
    """Write a file, whole or in pieces; one that is replaced keeps its mode and, where permitted,
    its owner.

    A symbolic link stays, and its target is replaced. Returns the status of what was written.
    Raises OSError; FileExistsError where there is such a file, unless ``overwrite``.
    """
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{uuid4().hex}.tmp")  # readers ignore dot-files
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, new_file_mode)
    with open(descriptor, "wb") as file:
        try:
            _copy_ownership(descriptor, target)
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(descriptor)
            if overwrite:
                unfinished.replace(target)
            else:
                target.hardlink_to(unfinished)  # unlike a rename, this refuses a name that is taken
        finally:
            unfinished.unlink(missing_ok=True)
        return os.fstat(descriptor)  # now: renaming changes a file's time


def _copy_ownership(descriptor: int, target: Path) -> None:
    """Copy owner and mode of the replaced file: the serving process may be another user's."""
    with suppress(FileNotFoundError):
        original = target.stat()
        with suppress(PermissionError):  # only root may give files away
            os.fchown(descriptor, original.st_uid, original.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(original.st_mode))


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
