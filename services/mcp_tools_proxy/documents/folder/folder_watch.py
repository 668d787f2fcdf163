"""Loads the changes of a documents folder as they happen."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import structlog
from watchfiles import Change, awatch

from mcp_tools_proxy.documents.folder.folder_store import FolderStore

DEBOUNCE_MS = 400
"""Milliseconds in which changes are collected before the folder is listed."""

CHECK_MS = 500
"""Milliseconds between checks that the watched folder has not been replaced."""

SCANS_AFTER_CHANGE = 3
"""How many checks in a row list the folder after a change.

A polling watch compares times in whole seconds, so it misses a second change within one.
"""

UNREAD_CHECKS = 10
"""Checks between attempts to read unreadable files: a change of access causes no event."""

MAX_SINGLE_FOLDERS = 200
"""How many folders are watched one by one: the event loop waits 50 µs for each.

A recursive watch looks at every file first, and it waits for that: 70 ms for 20,000.
"""

RETRY_S = 0.5
"""Seconds before a missing folder or a failed watch is tried again."""

_Identity = tuple[int, int]
"""Device and inode of a folder: another one is another folder of the same name."""

log = structlog.get_logger()


class FolderWatch:
    """Has a store load its folder at each change; each is in force within a second.

    A change event only triggers a load, which compares all names, sizes and times.
    """

    def __init__(self, store: FolderStore) -> None:
        self._store = store
        self._root = store.root

    def __repr__(self) -> str:
        return f"<FolderWatch {str(self._root)!r}>"

    async def run(self) -> None:
        """Load changes until cancelled, and scan the files of the folder in the background.

        A missing folder or a failing watch is retried, so only cancellation ends this.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.scan_rest())
            group.create_task(self._follow_for_ever())

    async def _follow_for_ever(self) -> None:
        trouble = ""
        while True:
            try:
                if trouble:
                    await self._store.load()
                await self._follow()
                await self._store.load()
                trouble = ""
            except* FileNotFoundError:
                trouble = "a folder was removed before it could be watched"
            except* (OSError, RuntimeError) as group:  # RuntimeError: watchfiles' internal errors
                now = str(group.exceptions[0])
                if now != trouble:
                    log.warning("documents.watch_failed", reason=now)
                trouble = now
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        """Load at each change, until the folder itself is missing or replaced."""
        identity = await asyncio.to_thread(_identity, self._root)
        while identity is not None and identity == await asyncio.to_thread(_identity, self._root):
            await self._watch(identity)

    async def _watch(self, identity: _Identity) -> None:
        """Load at each change, until there are other folders to watch."""
        folders = self._store.folders
        is_recursive = len(folders) > MAX_SINGLE_FOLDERS
        paths = [self._root] if is_recursive else [self._root / name for name in {"", *folders}]
        batches = awatch(
            *paths,
            recursive=is_recursive,
            watch_filter=None,  # a mounted volume may swap its files behind a link to a dot-folder
            debounce=DEBOUNCE_MS,
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
        )
        # one more: something may have changed just before the watch began
        scans_left = SCANS_AFTER_CHANGE + 1
        async with aclosing(batches):
            async for changes in batches:
                scans_left = SCANS_AFTER_CHANGE if changes else scans_left - 1
                if scans_left > 0 or (scans_left % UNREAD_CHECKS == 0 and self._store.has_unread):
                    await self._store.load()
                if (Change.deleted, str(self._root)) in changes:
                    return
                if await asyncio.to_thread(_identity, self._root) != identity:
                    return
                if not is_recursive and self._store.folders != folders:
                    return


def _identity(root: Path) -> _Identity | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
