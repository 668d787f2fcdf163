"""Tells when one file may have changed, by comparing what ``stat`` says of it.

Like ``config.folder``, and for its reasons: it sees files behind links, replaced or made later, on
any mount.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

POLL_S = 0.2
"""The pause between two looks while nothing happens, in seconds."""

SETTLE_S = 0.1
"""The pause between two looks after a change, in seconds."""

MAX_POLLS = 4
"""How many looks after the first sight of a change it is told in any case."""

RETRY_S = 1.0
"""The pause before a file that is there and could not be read is read again, in seconds."""


async def follow(file: Path, read: Callable[[], Awaitable[bool]]) -> None:
    """Call ``read`` at each change until cancelled, and again while it returns False.

    A file that could not be read for want of a descriptor does not change when there is one again:
    every token was refused until somebody touched the file.
    """
    async for _ in changes(file):
        while not await read():  # noqa: ASYNC110 - nobody tells when it can be read
            await asyncio.sleep(RETRY_S)


async def changes(
    file: Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncGenerator[None, None]:
    """Yield when the file may have changed, within 0.7 s; the first time at once.

    A change is told when the file is at rest, since editors write in pieces, or at the latest after
    ``MAX_POLLS``. The file need not exist; whatever happens to it, this goes on.
    """
    told = await asyncio.to_thread(_snapshot, file)
    yield
    while True:
        await sleep(POLL_S)
        seen = await asyncio.to_thread(_snapshot, file)
        if seen == told:
            continue
        for _ in range(MAX_POLLS):
            await sleep(SETTLE_S)
            before, seen = seen, await asyncio.to_thread(_snapshot, file)
            if seen == before:
                break
        told = seen
        yield


def _snapshot(file: Path) -> object:
    """Give something that is different whenever the file is; a failure is a state as well."""
    try:
        status = file.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
