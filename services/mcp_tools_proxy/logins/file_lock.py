"""Locks between processes, by ``flock``: the system releases those of a process that ends."""

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path


async def try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock of a file until it is closed; None if another does.

    The file is created where it is missing. Runs in a thread; a lock that is got after the caller
    was cancelled is released. Raises OSError.
    """
    attempt = asyncio.ensure_future(asyncio.to_thread(_try_lock, path))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        attempt.add_done_callback(_close_unused)
        raise


def remove_lock(path: Path) -> None:
    """Remove the file of a lock unless another holds it. Raises OSError."""
    descriptor = _try_lock(path)
    if descriptor is not None:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError, FileNotFoundError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == path.stat().st_ino:  # else another has removed it
                locked, descriptor = descriptor, -1
                return locked
        finally:
            if descriptor != -1:
                os.close(descriptor)
    return None


def _close_unused(attempt: asyncio.Future[int | None]) -> None:
    if attempt.cancelled() or attempt.exception() is not None:
        return
    descriptor = attempt.result()
    if descriptor is not None:
        os.close(descriptor)
