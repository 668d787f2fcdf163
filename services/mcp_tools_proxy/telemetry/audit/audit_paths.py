"""The files of one audit: the current file, and the rotated ones.

Requests without a valid token have a separate audit beside it. Only regular files are opened, never
links: a program with write access to the folder could otherwise redirect records into another file
of the gateway. A FIFO would block the writer, and a device would drop the records.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_SEQ_DIGITS = 12
_ROTATED = re.compile(rf"\.([0-9]{{{_SEQ_DIGITS},18}})")


UNAUTHENTICATED = ".unauthenticated"


def unauthenticated_path(path: Path) -> Path:
    """Return the path of the audit of unauthenticated requests that belongs to ``path``."""
    return path.with_name(f"{path.name}{UNAUTHENTICATED}")


def rotated_path(path: Path, last_seq: int) -> Path:
    """Return the new name of a full file; it ends in the number of its last record."""
    return path.with_name(f"{path.name}.{last_seq:0{_SEQ_DIGITS}}")


def rotated_files(path: Path) -> Sequence[Path]:
    """Return the rotated files of ``path``, the oldest first. Raises OSError."""
    found = [
        (int(number[1]), it)
        for it in path.parent.iterdir()
        if it.name.startswith(path.name)
        and (number := _ROTATED.fullmatch(it.name[len(path.name) :]))
    ]
    return [it for _, it in sorted(found)]


def audit_files(path: Path) -> Sequence[Path]:
    """Return all files of an audit, the oldest first. Raises OSError."""
    return [*rotated_files(path), *([path] if os.path.lexists(path) else [])]


_ATTEMPTS = 10
"""Retries after a rotation during the previous attempt, which takes milliseconds."""


@contextmanager
def opened_files(path: Path) -> Iterator[Sequence[BinaryIO]]:
    """Open all files of an audit, the oldest first. Raises OSError; FileNotFoundError for none.

    Links and special files are never opened. After a concurrent rotation, all are opened again:
    otherwise the removed file and the record of its removal would both be missing.
    """
    with ExitStack() as stack:
        files, newest = _open_files(path, stack)
        for _ in range(_ATTEMPTS):
            if newest == _identity_at(path):
                break
            stack.close()
            files, newest = _open_files(path, stack)
        if not files:
            raise FileNotFoundError(path)
        yield files


def _open_files(path: Path, stack: ExitStack) -> tuple[Sequence[BinaryIO], tuple[int, int] | None]:
    """Open the files of an audit; return them, and the identity of the current one.

    The current file is opened first: if it is then renamed, it is among the others.
    """
    found: dict[tuple[int, int], BinaryIO] = {}
    newest: list[BinaryIO] = []
    with suppress(FileNotFoundError):
        newest.append(stack.enter_context(_opened(path)))
    for old in rotated_files(path):
        with suppress(FileNotFoundError):  # removed by a rotation
            rotated = stack.enter_context(_opened(old))
            found[_identity_of(rotated)] = rotated
    for opened in newest:
        found.setdefault(_identity_of(opened), opened)
    return list(found.values()), _identity_of(newest[0]) if newest else None


def _identity_at(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path; None if it is missing."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _opened(path: Path) -> BinaryIO:
    return open(path, "rb", opener=lambda *_: open_to_read(path))


def _identity_of(opened: BinaryIO) -> tuple[int, int]:
    status = os.fstat(opened.fileno())
    return status.st_dev, status.st_ino


_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class NotRegularFile(OSError):
    """The path is a link, a folder, a FIFO or a device, or the file has a second name."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EPERM, f"{path.name} {problem}; move it out of the way")


def open_to_read(path: Path) -> int:
    """Open a file and return its descriptor. Raises OSError."""
    return _descriptor_of(path, os.O_RDONLY)


def open_to_write(path: Path, flags: int, mode: int) -> int:
    """Open or create a file; return its descriptor. Raises OSError.

    A file with a second hard link is refused: it can be another file of the gateway.
    """
    descriptor = _descriptor_of(path, os.O_RDWR | os.O_CREAT | flags, mode)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise NotRegularFile(path, "has a second name (a hard link)")
    return descriptor


def _descriptor_of(path: Path, flags: int, mode: int = 0) -> int:
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
