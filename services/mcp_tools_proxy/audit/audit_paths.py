"""The files of one audit: the one that is written, and those that it was rotated into.

Beside them is an audit of its own for requests that were refused without a valid token.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from mcp_tools_proxy.audit.regular_file import open_to_read

_SEQ_DIGITS = 12
_ROTATED = re.compile(rf"\.([0-9]{{{_SEQ_DIGITS},18}})")


UNAUTHENTICATED = ".unauthenticated"


def unauthenticated_path(path: Path) -> Path:
    """Return the path of the audit of unauthenticated requests that belongs to ``path``."""
    return path.with_name(f"{path.name}{UNAUTHENTICATED}")


def rotated_path(path: Path, last_seq: int) -> Path:
    """Return the name for a file that is full; it ends in the number of its last record."""
    return path.with_name(f"{path.name}.{last_seq:0{_SEQ_DIGITS}}")


def rotated_files(path: Path) -> Sequence[Path]:
    """Return the files that ``path`` was rotated into, the oldest first. Raises OSError."""
    found = [
        (int(number[1]), it)
        for it in path.parent.iterdir()
        if it.name.startswith(path.name)
        and (number := _ROTATED.fullmatch(it.name[len(path.name) :]))
    ]
    return [it for _, it in sorted(found)]


def audit_files(path: Path) -> Sequence[Path]:
    """Return every file of an audit, the oldest first. Raises OSError."""
    return [*rotated_files(path), *([path] if os.path.lexists(path) else [])]


_ATTEMPTS = 10
"""Each follows a rotation in the milliseconds that the attempt before took."""


@contextmanager
def opened_files(path: Path) -> Iterator[Sequence[BinaryIO]]:
    """Open every file of an audit, the oldest first. Raises OSError; FileNotFoundError for none.

    A file that is a link, or no regular file, is not opened. After a rotation meanwhile all are
    opened again: the file that was removed would be missing, with the new one that says so.
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
    """Open the files of an audit; return them, and the identity of the one that is written.

    That one is opened first: if it is renamed then, it is among the others.
    """
    found: dict[tuple[int, int], BinaryIO] = {}
    newest: list[BinaryIO] = []
    with suppress(FileNotFoundError):
        newest.append(stack.enter_context(_opened(path)))
    for old in rotated_files(path):
        with suppress(FileNotFoundError):  # it was removed for a new one
            rotated = stack.enter_context(_opened(old))
            found[_identity_of(rotated)] = rotated
    for opened in newest:
        found.setdefault(_identity_of(opened), opened)
    return list(found.values()), _identity_of(newest[0]) if newest else None


def _identity_at(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path, None if there is none."""
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
