"""Watches the configuration files of a folder."""

import asyncio
import os
from collections.abc import AsyncGenerator
from fnmatch import fnmatchcase
from pathlib import Path

from mcp_tools_proxy.config.loader import AGENTS_FILE, CONFIGURATION_FILE, PRESET_FILES
from mcp_tools_proxy.filesystem.watch import Sleep, changes, state_of


def folder_changes(folder: Path, *, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[None, None]:
    """Yield when one of the configuration files may have changed; see ``filesystem.watch.changes``.

    The folder need not exist. No error ends the iteration.
    """
    return changes(lambda: _snapshot(folder), sleep=sleep)


def _snapshot(folder: Path) -> object:
    """Return a value that differs whenever a file does; an error is a state as well."""
    try:
        names = sorted(name for name in os.listdir(folder) if _is_watched(name))
    except OSError as error:
        return error.errno
    return tuple((name, state_of(folder / name)) for name in names)


def _is_watched(name: str) -> bool:
    return name in (CONFIGURATION_FILE, AGENTS_FILE) or fnmatchcase(name, PRESET_FILES)
