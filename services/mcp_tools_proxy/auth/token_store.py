"""Adds and removes tokens in the tokens file, under a lock and atomically."""

import fcntl
import os
import secrets
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from mcp_tools_proxy.auth.revoked_tokens import add_revoked
from mcp_tools_proxy.auth.token_format import (
    TokenEntry,
    dump_line,
    id_of,
    new_token,
    read_lines,
    sha256_of,
    tenant_of,
)
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.domain.quota import Quota, Usage
from mcp_tools_proxy.storage.files import write_atomically

FILE_MODE = 0o600
"""The mode of a new file: only its owner can read or write it."""


MAX_ENTRY_BYTES = 65_536
"""Limit of a new token's line, in bytes. All tokens are in memory: 116 with 1,000 documents of 256
characters outside the BMP each took 340 MB.
"""


class UnknownToken(Exception):
    """No line has this id."""


class TokenTooLarge(Exception):
    """The line of a new token would be over ``MAX_ENTRY_BYTES``."""


def add_token(
    path: Path,
    principal: Principal,
    *,
    created: datetime | None = None,
    expires: datetime | None = None,
    note: str = "",
    quota: Quota | None = None,
) -> tuple[str, TokenEntry]:
    """Create a token and add its line. Returns the token, which is not stored, and its entry.

    Other lines are unchanged byte for byte; a missing file or folder is created. ``quota`` limits
    the size of the token and the tokens of its tenant. Raises OSError; ValueError for an entry that
    could not be parsed back; TokenTooLarge; QuotaExceeded.
    """
    token = new_token()
    with _locked_edit(path) as lines:
        entry = TokenEntry(
            id=_free_id({id_of(line) for line in lines}),
            hash=sha256_of(token),
            principal=principal,
            created=created,
            expires=expires,
            note=note,
        )
        line = dump_line(entry)
        if quota is not None:
            _check_quota(quota, lines, principal.tenant_id, len(line))
        lines.append(line)
    return token, entry


def _check_quota(quota: Quota, lines: Sequence[bytes], tenant_id: str | None, size: int) -> None:
    if size > MAX_ENTRY_BYTES:
        raise TokenTooLarge
    if tenant_id is not None:
        sizes = [len(line) for line in lines if tenant_of(line) == tenant_id]
        quota.check(others=Usage(len(sizes), sum(sizes)), old=Usage(), new=Usage(1, size))


def remove_entry(path: Path, token_id: str) -> None:
    """Remove every line with this id. Raises UnknownToken, OSError."""
    with _locked_edit(path) as lines:
        remaining = _without(lines, token_id)
        if len(remaining) == len(lines):
            raise UnknownToken(token_id)
        lines[:] = remaining


def revoke_token(path: Path, token_id: str, may_revoke: Callable[[Principal], bool]) -> TokenEntry:
    """Remove the token with this id if ``may_revoke`` its current principal; return its entry.

    Raises UnknownToken, also for a token that must not be revoked; OSError.
    """
    with _locked_edit(path) as lines:
        entries = read_lines(b"".join(lines)).entries
        entry = next((it for it in entries if it.id == token_id), None)
        if entry is None or not may_revoke(entry.principal):
            raise UnknownToken(token_id)
        lines[:] = _without(lines, token_id)
    return entry


def _without(lines: list[bytes], token_id: str) -> list[bytes]:
    return [line for line in lines if id_of(line) != token_id]


def _free_id(taken: Container[str | None]) -> str:
    while (number := secrets.token_hex(4)) in taken:
        pass
    return number


@contextmanager
def _locked_edit(path: Path) -> Iterator[list[bytes]]:
    """Yield the file's lines to edit; they are written back if the block does not raise.

    The folder is locked, so that two processes do not overwrite each other's change. The file
    cannot be locked, since each write replaces it.
    """
    path = Path(os.path.realpath(path))  # keep a link
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            content = b""
        if content and not content.endswith(b"\n"):
            content += b"\n"
        lines = content.splitlines(keepends=True)
        yield lines
        edited = b"".join(lines)
        write_atomically(path, edited, new_file_mode=FILE_MODE)
        left = {entry.hash for entry in read_lines(edited).entries}
        removed = [it for it in read_lines(content).entries if it.hash not in left]
        with suppress(OSError):  # the tokens are revoked; this is only for records
            add_revoked(path, removed, datetime.now(UTC))
        os.fsync(folder)
    finally:
        os.close(folder)  # also unlocks it
