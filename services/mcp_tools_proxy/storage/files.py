"""Atomic file writes and temporary files."""

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from uuid import uuid4

_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.tmp")


def remove_unfinished(root: Path) -> None:
    """Remove temporary files of killed writers below a folder, without following links.

    Requires the lock that all writers of the folder use. Raises OSError.
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
    """Write a file atomically; a replaced file keeps its mode and, if permitted, its owner.

    The target of a symbolic link is replaced. Returns the status of the written file. Raises
    OSError; FileExistsError if the file exists and ``overwrite`` is False.
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
                target.hardlink_to(unfinished)  # unlike a rename, fails if the name exists
        finally:
            unfinished.unlink(missing_ok=True)
        return os.fstat(descriptor)  # not later: renaming changes the ctime


def _copy_ownership(descriptor: int, target: Path) -> None:
    """Copy owner and mode of the replaced file; the service can run as another user."""
    with suppress(FileNotFoundError):
        original = target.stat()
        with suppress(PermissionError):  # only root may change the owner
            os.fchown(descriptor, original.st_uid, original.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(original.st_mode))


def statuses_of(folder: Path) -> Mapping[str, os.stat_result]:
    """Return the status of each file in a folder by name, without dot-files. Raises OSError.

    Files that others remove meanwhile are left out.
    """
    found: dict[str, os.stat_result] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    found[entry.name] = entry.stat()
    return found


def open_temporary(prefix: str) -> FileIO:
    """Open an unbuffered temporary file. Raises OSError.

    Without a buffer, a full disk is reported by ``write_all`` instead of when closing.
    """
    return tempfile.TemporaryFile(prefix=prefix, buffering=0)


def write_all(file: FileIO, content: bytes) -> None:
    """Write all of ``content``, if necessary in several writes. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
