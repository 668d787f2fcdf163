"""Tells when one file may have changed, by comparing what ``stat`` says of it.

Like ``config.folder``, and for its reasons: it sees files behind links, replaced or made later, on
any mount.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

LOOK_S = 0.2
"""The pause between two looks while nothing happens, in seconds."""

SETTLE_S = 0.1
"""The pause between two looks after a change, in seconds."""

MAX_LOOKS = 4
"""How many looks after the first sight of a change it is told in any case."""


async def changes(
    file: Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncGenerator[None, None]:
    """Yield when the file may have changed, within 0.7 s; the first time at once.

    A change is told when the file is at rest, since editors write in pieces, or at the latest after
    ``MAX_LOOKS``. The file need not exist; whatever happens to it, this goes on.
    """
    told = await asyncio.to_thread(_look, file)
    yield
    while True:
        await sleep(LOOK_S)
        seen = await asyncio.to_thread(_look, file)
        if seen == told:
            continue
        for _ in range(MAX_LOOKS):
            await sleep(SETTLE_S)
            before, seen = seen, await asyncio.to_thread(_look, file)
            if seen == before:
                break
        told = seen
        yield


def _look(file: Path) -> object:
    """Give something that is different whenever the file is; a failure is a state as well."""
    try:
        status = file.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
