"""Watches files by polling ``stat``, five times a second.

Polling is less code than inotify and misses nothing: a file or folder that is created later or
replaced, a file changed behind a symbolic link (as Kubernetes swaps them), a mount that sends no
events. One poll of 50 files takes 0.3 ms, in a thread.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

POLL_S = 0.2
"""Seconds between two polls while nothing changes."""

SETTLE_S = 0.1
"""Seconds between two polls after a change."""

QUIET_POLLS = 3
"""How many polls in a row must see no further change: editors write in pieces."""

MAX_POLLS = 5
"""After how many polls a change is reported even if the files still change."""

RETRY_S = 1.0
"""Seconds before a file that exists and could not be read is read again."""

Sleep = Callable[[float], Awaitable[None]]


async def follow(file: Path, read: Callable[[], Awaitable[bool]]) -> None:
    """Call ``read`` at each change until cancelled, and again while ``read`` returns False.

    A file that cannot be read because the process is out of file descriptors does not change when
    descriptors are free again. Without the retry every token was refused until the next edit.
    """
    async for _ in file_changes(file):
        while not await read():  # noqa: ASYNC110 - no event reports that a file can be read
            await asyncio.sleep(RETRY_S)


def file_changes(file: Path, *, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[None, None]:
    """Yield when the file may have changed; see ``changes``. The file need not exist."""
    return changes(lambda: state_of(file), sleep=sleep)


async def changes(
    snapshot: Callable[[], object], *, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[None, None]:
    """Yield when ``snapshot``, which is called in a thread, returns another value than before.

    The first time is at once, since a file may have changed after it was last read; then within
    0.7 s of a change. Changes in quick succession are reported together.
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
    """Return a value that differs whenever the file does; an error of ``stat`` is a state too."""
    try:
        status = file.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


async def _wait_settled(snapshot: Callable[[], object], current: object, sleep: Sleep) -> object:
    """Wait until the files are at rest, for at most ``MAX_POLLS``, and return their snapshot."""
    quiet = 0
    for _ in range(MAX_POLLS):
        await sleep(SETTLE_S)
        before, current = current, await asyncio.to_thread(snapshot)
        quiet = quiet + 1 if current == before else 0
        if quiet == QUIET_POLLS:
            break
    return current
