"""One login in one file: written whole, readable by this user alone. Blocks."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

from mcp_tools_proxy.filesystem.atomic import write_atomically
from mcp_tools_proxy.logins.login_store import StoredLogin
from mcp_tools_proxy.logins.owner_encoding import (
    binding_of_text,
    binding_text,
    decoded,
    encoded,
    owner_of_text,
    owner_text,
)

FORMAT = 1
SUFFIX = ".login"
_MODE = 0o600
_FOLDER_MODE = 0o700
_OTHERS = 0o077


class UnreadableLogin(Exception):
    """A file that holds no login which this release can read; it is left as it is."""


def read_login(path: Path) -> tuple[StoredLogin, bool] | None:
    """Return the login in a file, and whether other users may read the file; None for no file.

    Raises OSError, UnreadableLogin.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except FileNotFoundError:
        return None
    return _login_of(path, content), bool(mode & _OTHERS)


def write_login(path: Path, stored: StoredLogin) -> None:
    """Write a login, to the disk, in place of that in the file. Raises OSError."""
    write_atomically(path, dump_login(stored), new_file_mode=_MODE)
    sync_folder(path.parent)


def dump_login(stored: StoredLogin) -> bytes:
    """Return the content of a login's file."""
    content = {
        "format": FORMAT,
        "owner": owner_text(stored.owner),
        "binding": binding_text(stored.binding),
        "version": stored.version,
        "refresh_sent": stored.refresh_sent,
        "sealed": base64.b64encode(stored.sealed).decode(),
    }
    return encoded(json.dumps(content, ensure_ascii=False))


def remove_login(path: Path) -> None:
    """Remove the file of a login. Raises OSError."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def prepare_folder(folder: Path) -> None:
    """Create the folder of logins if it is missing. Raises OSError."""
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk: a refresh token of before must not come back."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def login_files(folder: Path) -> Iterator[Path]:
    """Yield the files of logins. Raises OSError."""
    return folder.glob(f"*{SUFFIX}")


def _login_of(path: Path, content: bytes) -> StoredLogin:
    try:
        fields = json.loads(decoded(content))
        if fields["format"] != FORMAT:
            raise UnreadableLogin(
                f"{path} was written by another release; use that release, or move the file away "
                "and sign in again"
            )
        return StoredLogin(
            owner=owner_of_text(fields["owner"]),
            binding=binding_of_text(fields["binding"]),
            sealed=base64.b64decode(fields["sealed"], validate=True),
            version=str(fields["version"]),
            refresh_sent=bool(fields["refresh_sent"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UnreadableLogin(
            f"{path} is damaged; restore it, or move it away and sign in again"
        ) from None
