"""Watches files by polling ``stat`` five times a second.

Polling is simpler than inotify and detects files and folders that are created later or replaced,
targets of symbolic links (as Kubernetes swaps them), and changes on mounts without events. One poll
of 50 files takes 0.3 ms in a thread.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

POLL_S = 0.2
"""Poll interval in seconds while nothing changes."""

SETTLE_S = 0.1
"""Poll interval in seconds after a change."""

QUIET_POLLS = 3
"""Consecutive unchanged polls after which files are stable: editors write in pieces."""

MAX_POLLS = 5
"""Polls after which a change is reported even if the files still change."""

RETRY_S = 1.0
"""Seconds until an existing but unreadable file is read again."""

Sleep = Callable[[float], Awaitable[None]]


async def follow(file: Path, read: Callable[[], Awaitable[bool]]) -> None:
    """Call ``read`` after each change until cancelled; repeat it while it returns False.

    If a read fails because the process is out of file descriptors, the file does not change when
    they become available. Without the retry all tokens were refused until the next edit.
    """
    async for _ in file_changes(file):
        while not await read():  # noqa: ASYNC110 - no event reports that a file is readable
            await asyncio.sleep(RETRY_S)


def file_changes(file: Path, *, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[None, None]:
    """Yield when the file may have changed; see ``changes``. The file can be missing."""
    return changes(lambda: state_of(file), sleep=sleep)


async def changes(
    snapshot: Callable[[], object], *, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[None, None]:
    """Yield when the value of ``snapshot``, called in a thread, has changed.

    It first yields at once, because the file may have changed after it was last read, and then
    within 0.7 s of each change. Changes in quick succession are reported together.
    """
    reported = await asyncio.to_thread(snapshot)
    yield
    while True:
        await sleep(POLL_S)
        current = await asyncio.to_thread(snapshot)
        if current != reported:
            reported = await _wait_settled(snapshot, current, sleep)
            yield


def state_of(file: Path) -> object:
    """Return a value that changes with the file; errors of ``stat`` are also values."""
    try:
        status = file.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


async def _wait_settled(snapshot: Callable[[], object], current: object, sleep: Sleep) -> object:
    """Wait until the files are stable, at most ``MAX_POLLS``, and return their snapshot."""
    quiet = 0
    for _ in range(MAX_POLLS):
        await sleep(SETTLE_S)
        before, current = current, await asyncio.to_thread(snapshot)
        quiet = quiet + 1 if current == before else 0
        if quiet == QUIET_POLLS:
            break
    return current
