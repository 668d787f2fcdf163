"""The private cache folder of this user for data derived from documents."""

import os
import stat
import tempfile
from pathlib import Path


def default_folder() -> Path:
    """Return this user's folder in the system's temporary folder."""
    return Path(tempfile.gettempdir(), f"mcp-tools-proxy-{os.getuid()}")


def make_private(folder: Path) -> None:
    """Create the folder if it is missing, and check that only this user can write. Raises OSError.

    Anyone with write access could change the readers of any document. In a temporary folder,
    another user of the machine could have created it first.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if status.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by other users")
