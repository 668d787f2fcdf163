"""Watches the configuration folder by polling ``stat`` of its few files, five times a second.

Polling is less code than inotify and misses nothing: a folder that is created later or replaced, a
file changed behind a symbolic link (as Kubernetes swaps them), a mount that sends no events. One
poll of 50 files takes 0.3 ms, in a thread.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from fnmatch import fnmatchcase
from pathlib import Path

from mcp_tools_proxy.config.loader import AGENTS_FILE, CONFIGURATION_FILE, PRESET_FILES

POLL_S = 0.2
"""Seconds between two polls while nothing changes."""

SETTLE_S = 0.1
"""Seconds between two polls after a change."""

QUIET_POLLS = 3
"""How many polls in a row must see no further change: editors write in pieces."""

MAX_POLLS = 5
"""After how many polls a change is reported even if the files still change."""

_Snapshot = tuple[tuple[str, object], ...]


async def changes(
    folder: Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncGenerator[None, None]:
    """Yield when one of the configuration files may have changed, within 0.7 s of the change.

    The first time is at once, since a file may have changed after it was last read. Changes in
    quick succession are reported together. The folder need not exist. No error ends the iteration.
    """
    reported = await asyncio.to_thread(_snapshot, folder)
    yield
    while True:
        await sleep(POLL_S)
        current = await asyncio.to_thread(_snapshot, folder)
        if current != reported:
            reported = await _wait_settled(folder, current, sleep)
            yield


async def _wait_settled(
    folder: Path, current: _Snapshot, sleep: Callable[[float], Awaitable[None]]
) -> _Snapshot:
    """Wait until the files are at rest, for at most ``MAX_POLLS``, and return their snapshot."""
    quiet = 0
    for _ in range(MAX_POLLS):
        await sleep(SETTLE_S)
        before, current = current, await asyncio.to_thread(_snapshot, folder)
        quiet = quiet + 1 if current == before else 0
        if quiet == QUIET_POLLS:
            break
    return current


def _snapshot(folder: Path) -> _Snapshot:
    """Return a value that differs whenever a file does; an error is a state as well."""
    try:
        names = sorted(name for name in os.listdir(folder) if _is_watched(name))
    except OSError as error:
        return ((".", error.errno),)
    return tuple((name, _state(folder / name)) for name in names)


def _is_watched(name: str) -> bool:
    return name in (CONFIGURATION_FILE, AGENTS_FILE) or fnmatchcase(name, PRESET_FILES)


def _state(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
