"""The files of one audit: the current file, and the rotated ones.

Requests without a valid token have a separate audit beside it. Only regular files are opened, never
links: a program with write access to the folder could otherwise redirect records into another file
of the gateway. A FIFO would block the writer, and a device would drop the records.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import escape, iglob
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

HOST = "{host}"
"""What is replaced by the name of the machine in the path of the file."""
WORKER = "{worker}"
"""What is replaced by the number of the worker process, from 1."""

_SEQ_DIGITS = 12
_ROTATED = re.compile(rf"\.([0-9]{{{_SEQ_DIGITS},18}})")


UNAUTHENTICATED = ".unauthenticated"
LOCK = ".lock"


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


def audits_in(folder: Path) -> Sequence[Path]:
    """Return the audits in a folder: names with a record in one of their files. Raises OSError."""
    names = {_name_of_audit(it.name) for it in folder.iterdir()}
    return [folder / name for name in sorted(names) if has_records(folder / name)]


def _name_of_audit(name: str) -> str:
    """Return the name of the audit that a rotated file or a companion would belong to."""
    for suffix in (_ROTATED.pattern, re.escape(UNAUTHENTICATED)):
        name = re.sub(rf"{suffix}$", "", name)
    return name


def audits_matching(pattern: Path) -> Mapping[Path, int]:
    """Return the audits at the paths that ``{host}`` and ``{worker}`` stand for, with the worker.

    Without ``{worker}``, the number is 0.
    """
    parts = re.split(rf"({re.escape(HOST)}|{re.escape(WORKER)})", str(pattern))
    globs: list[str] = []
    texts: list[str] = []
    for part in parts:
        is_text = part not in (HOST, WORKER)
        globs.append(escape(part) if is_text else "*")
        again = "(?P=worker)" if WORKER in parts[: len(texts)] else "(?P<worker>[1-9][0-9]*)"
        texts.append(re.escape(part) if is_text else "[^/]+?" if part == HOST else again)
    path = re.compile(rf"(?P<path>{''.join(texts)})(?:{_ROTATED.pattern})?")
    found = {}
    for name in sorted(iglob(f"{''.join(globs)}*")):
        match = path.fullmatch(name)
        if match is not None and not match["path"].endswith((UNAUTHENTICATED, LOCK)):
            found[Path(match["path"])] = int(match.groupdict().get("worker") or 0)
    return {path: found[path] for path in sorted(found, key=lambda it: (found[it], it))}


_PROBE_BYTES = 65_536
_FIELDS = {"timestamp", "level", "event", "payload", "trace_id", "seq"}


def has_records(path: Path) -> bool:
    """Return whether a file of an audit begins or ends with a record. Raises OSError.

    Only one end may have been overwritten, so both are searched, and those of the separate audit of
    unauthenticated requests.
    """
    files = [*audit_files(path), *audit_files(unauthenticated_path(path))]
    return any(_has_records(file) for file in files)


def _has_records(file: Path) -> bool:
    try:
        descriptor = open_to_read(file)
    except PermissionError:  # an unreadable audit has to be reported, another file not
        return os.path.lexists(file.with_name(f"{_name_of_audit(file.name)}{LOCK}"))
    except OSError:
        return False
    try:
        end = max(0, os.fstat(descriptor).st_size - _PROBE_BYTES)
        lines = [os.pread(descriptor, _PROBE_BYTES, start).split(b"\n") for start in (0, end)]
    finally:
        os.close(descriptor)
    return any(_is_record(line) for line in (*lines[0], *lines[1]))


def _is_record(line: bytes) -> bool:
    try:
        record = from_json(line)
    except ValueError:
        return False
    return isinstance(record, dict) and record.keys() >= _FIELDS


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
