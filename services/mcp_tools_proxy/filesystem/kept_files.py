"""Removes files that are no longer kept."""

from collections.abc import Collection
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
