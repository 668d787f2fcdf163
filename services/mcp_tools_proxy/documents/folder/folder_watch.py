"""Reloads a documents folder when it changes."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import structlog
from watchfiles import Change, awatch

from mcp_tools_proxy.documents.folder.folder_store import FolderStore

DEBOUNCE_MS = 400
"""Milliseconds during which changes are collected before a load."""

CHECK_MS = 500
"""Milliseconds between checks for a replaced folder."""

SCANS_AFTER_CHANGE = 3
"""Consecutive checks that list the folder after a change.

A polling watch compares times in whole seconds, so it misses a second change within one.
"""

UNREAD_CHECKS = 10
"""Checks between attempts to read unreadable files: a change of permissions causes no event."""

BEGIN_AFTER_S = 0.1
"""Delay of the watch, so that readiness is reported first: the watch starts with a check of every
file, which blocks for 70 ms with 20,000 files."""

RETRY_S = 0.5
"""Seconds before a missing folder or a failed watch is retried."""

_FAILURES = (OSError, RuntimeError, ValueError)
"""Errors of a watch: RuntimeError is watchfiles' own; ValueError is a name that is not UTF-8."""

log = structlog.get_logger()


class FolderWatch:
    """Reloads a store after each change of its folder, within a second.

    An event only triggers a load, which compares all names, sizes and times.
    """

    def __init__(self, store: FolderStore) -> None:
        self._store = store
        self._root = store.root

    def __repr__(self) -> str:
        return f"<FolderWatch {str(self._root)!r}>"

    async def run(self) -> None:
        """Follow changes until cancelled, and scan files in the background.

        A missing folder or a failed watch is retried.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.scan_rest())
            group.create_task(self._follow_for_ever())

    async def _follow_for_ever(self) -> None:
        await asyncio.sleep(BEGIN_AFTER_S)
        trouble = ""
        while True:
            try:
                if trouble:
                    await self._store.load()
                await self._follow()
                await self._store.load()
                trouble = ""
            except* _FAILURES as group:
                now = str(group.exceptions[0])
                if now != trouble:
                    log.warning("documents.watch_failed", reason=now)
                trouble = now
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        """Load at each change, until the folder itself is removed or replaced."""
        identity = await asyncio.to_thread(_identity, self._root)
        if identity is None:
            return
        batches = awatch(
            self._root,
            watch_filter=None,  # a mounted volume can swap its files behind a link to a dot-folder
            debounce=DEBOUNCE_MS,
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
        )
        # one more, for a change just before the watch began
        scans_left = SCANS_AFTER_CHANGE + 1
        async with aclosing(batches):
            async for changes in batches:
                scans_left = SCANS_AFTER_CHANGE if changes else scans_left - 1
                is_due = scans_left % UNREAD_CHECKS == 0 and self._store.catalog.has_unread
                if scans_left > 0 or is_due:
                    await self._store.load()
                if (Change.deleted, str(self._root)) in changes:
                    return
                if await asyncio.to_thread(_identity, self._root) != identity:
                    return


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
