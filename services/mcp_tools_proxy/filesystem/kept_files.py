"""Removes files that are no longer kept, and measures those that are."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path


def remove_others(folder: Path, kept: Collection[Path]) -> None:
    """Remove the files of a folder except some; the folder as well if none of those is there.

    Raises OSError.
    """
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path not in kept:
            path.unlink(missing_ok=True)
    if not any(path.exists() for path in kept):
        folder.rmdir()


def kept_sizes(folder: Path) -> Mapping[str, Sequence[int]]:
    """Return the sizes of the files in each folder below ``folder``. Raises OSError."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: _file_sizes(entry.path) for entry in entries if entry.is_dir()}


def _file_sizes(folder: str) -> Sequence[int]:
    with os.scandir(folder) as entries:
        return [entry.stat().st_size for entry in entries]
