"""Lists the document files of a folder by name, size and time, without reading any."""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

Stamp = tuple[int, int, int, int]
"""Times of change of content and of inode in ns, size, inode: another one is another file."""

SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds: ``files`` by their names relative to it, with ``/`` between folders.

    ``unlisted`` are folders that could not be read, and ``unread`` files, each with the reason.
    ``is_there`` is whether the folder itself is.
    """

    files: Mapping[str, Stamp]
    unlisted: Mapping[str, str]
    unread: Mapping[str, str]
    is_there: bool


def list_files(root: Path) -> Listing:
    """List the files ``*.json`` below ``root``, but for what begins with a dot. Blocks."""
    files: dict[str, Stamp] = {}
    unlisted: dict[str, str] = {}
    unread: dict[str, str] = {}
    folders = [""]
    while folders:
        prefix = folders.pop()
        try:
            with os.scandir(root / prefix) as entries:
                folders += _sort(entries, prefix, files, unread)
        except (FileNotFoundError, NotADirectoryError):
            if not prefix:
                return Listing({}, {}, {}, is_there=False)
        except OSError as error:
            unlisted[prefix.rstrip("/")] = f"cannot be listed: {error.strerror}"
    return Listing(files, unlisted, unread, is_there=True)


def _sort(
    entries: Iterable[os.DirEntry[str]],
    prefix: str,
    files: dict[str, Stamp],
    unread: dict[str, str],
) -> list[str]:
    """Put the files of one folder into ``files`` and ``unread``; return the folders in it."""
    folders = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            folders.append(f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                unread[prefix + entry.name] = f"cannot be read: {error.strerror}"
                continue
            if stat.S_ISREG(status.st_mode):  # reading a pipe would block
                files[prefix + entry.name] = stamp_of(status)
    return folders


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file's status."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
