"""Watches one file by polling ``stat``.

Polling, as in ``config.folder_watch`` and for the same reasons: it sees changes of files behind
symbolic links, of files that are replaced or created later, and on any mount.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

POLL_S = 0.2
"""Seconds between two polls while nothing changes."""

SETTLE_S = 0.1
"""Seconds between two polls after a change."""

MAX_POLLS = 4
"""After how many polls a change is reported even if the file still changes."""

RETRY_S = 1.0
"""Seconds before a file that exists and could not be read is read again."""


async def follow(file: Path, read: Callable[[], Awaitable[bool]]) -> None:
    """Call ``read`` at each change until cancelled, and again while ``read`` returns False.

    A file that cannot be read because the process is out of file descriptors does not change when
    descriptors are free again. Without the retry every token was refused until the next edit.
    """
    async for _ in changes(file):
        while not await read():  # noqa: ASYNC110 - no event reports that a file can be read
            await asyncio.sleep(RETRY_S)


async def changes(
    file: Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncGenerator[None, None]:
    """Yield when the file may have changed, within 0.7 s; the first time at once.

    Editors write in pieces, so a change is reported when the file is at rest, or after
    ``MAX_POLLS``. The file need not exist. No error ends the iteration.
    """
    reported = await asyncio.to_thread(_snapshot, file)
    yield
    while True:
        await sleep(POLL_S)
        current = await asyncio.to_thread(_snapshot, file)
        if current == reported:
            continue
        for _ in range(MAX_POLLS):
            await sleep(SETTLE_S)
            before, current = current, await asyncio.to_thread(_snapshot, file)
            if current == before:
                break
        reported = current
        yield


def _snapshot(file: Path) -> object:
    """Return a value that differs whenever the file does; an error of ``stat`` is a state too."""
    try:
        status = file.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
