"""Logins in a folder of one machine, with one file per owner.

A change locks the folder while it writes a small file. A lease is a lock on a separate file per
owner.
"""

import asyncio
import base64
import fcntl
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import structlog

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner
from mcp_tools_proxy.domain.quota import Quota, Usage
from mcp_tools_proxy.storage.files import remove_unfinished, write_atomically
from mcp_tools_proxy.storage.logins.login_store import (
    LEASE_WAIT_S,
    UNREADABLE,
    LeaseQueue,
    StoredLogin,
    binding_of_text,
    binding_text,
    decoded,
    encoded,
    is_growing,
    new_version,
    owner_key,
    owner_of_text,
    owner_text,
    sorted_owners,
)

FORMAT = 1
SUFFIX = ".login"
_MODE = 0o600
_FOLDER_MODE = 0o700
_OTHERS = 0o077

WRITE_WAIT_S = 10.0
"""Seconds that a change waits for the folder's lock; each change takes milliseconds."""

_WRITE_LOCK = b"the folder"
_WRITE_LOCK_NAME = ".lock"

T = TypeVar("T")

log = structlog.get_logger()


class UnreadableLogin(Exception):
    """A file contains no login that this release can read; it remains unchanged."""


class FileLogins:
    """A LoginStore in a folder that several processes of one machine can share."""

    def __init__(self, folder: Path, *, quota: Quota | None = None) -> None:
        self._folder = folder
        self._quota = quota
        self._tenants: dict[str, str] = {}
        """Tenants by file name, a digest of the owner."""
        self._queue = LeaseQueue()
        self._has_warned = False

    async def find(self, owner: LoginOwner) -> StoredLogin | None:
        """Return the login of an owner, or None."""
        path = self._path_of(owner)
        return await self._in_thread(lambda: self._read(path, owner))

    async def put(self, owner: LoginOwner, binding: LoginBinding, sealed: bytes) -> StoredLogin:
        """Write a login, replacing the owner's previous one unless it is unreadable."""
        stored = StoredLogin(owner=owner, binding=binding, sealed=sealed, version=new_version())
        path = self._path_of(owner)

        def write() -> None:
            self._read(path, owner)  # raises for a login written by a newer release
            if self._quota is not None and owner.tenant_id:
                self._check_quota(self._quota, path, stored)
            write_login(path, stored)

        await self._change(write)
        return stored

    async def replace(
        self, stored: StoredLogin, sealed: bytes, *, refresh_sent: bool = False
    ) -> StoredLogin | None:
        """Replace ``stored``; return None, without writing, if it has changed."""
        newer = replace(stored, sealed=sealed, version=new_version(), refresh_sent=refresh_sent)
        path = self._path_of(stored.owner)

        def write() -> StoredLogin | None:
            if not self._is_there(path, stored):
                return None
            if self._quota is not None and is_growing(stored, newer):
                self._check_quota(self._quota, path, newer)
            write_login(path, newer)
            return newer

        return await self._change(write)

    async def remove(self, stored: StoredLogin) -> bool:
        """Remove a login; return False, without removing, if it differs from ``stored``."""
        path = self._path_of(stored.owner)

        def remove() -> bool:
            if not self._is_there(path, stored):
                return False
            remove_login(path)
            remove_lock(_lock_of(path))
            return True

        return await self._change(remove)

    async def owners(self, tenant_id: str, *, server_id: str | None = None) -> Sequence[LoginOwner]:
        """Return the owners of one tenant's logins; "" is the deployment."""
        found = await self._in_thread(self._all_owners)
        return sorted_owners(found, tenant_id, server_id)

    @asynccontextmanager
    async def lease(
        self, owner: LoginOwner, *, wait_s: float = LEASE_WAIT_S
    ) -> AsyncIterator[StoredLogin | None]:
        """Hold the exclusive lease on a login, and return its current state."""
        if await self.find(owner) is None:
            yield None
            return
        async with self._locked(_lock_of(self._path_of(owner)), owner_key(owner), wait_s):
            yield await self.find(owner)

    async def _change(self, change: Callable[[], T]) -> T:
        """Run a change under the folder's lock; it completes even if the caller is cancelled."""
        await self._in_thread(lambda: prepare_folder(self._folder))
        return await asyncio.shield(asyncio.ensure_future(self._change_locked(change)))

    async def _change_locked(self, change: Callable[[], T]) -> T:
        def make() -> T:
            remove_unfinished(self._folder)
            return change()

        async with self._locked(self._folder / _WRITE_LOCK_NAME, _WRITE_LOCK, WRITE_WAIT_S):
            return await self._in_thread(make)

    @asynccontextmanager
    async def _locked(self, path: Path, key: bytes, wait_s: float) -> AsyncIterator[None]:
        held: list[int] = []

        async def attempt() -> bool:
            try:
                descriptor = await try_lock(path)
            except OSError as error:
                raise _unavailable(error) from error
            if descriptor is not None:
                held.append(descriptor)
            return descriptor is not None

        async with self._queue.turn(key, attempt, wait_s=wait_s):
            try:
                yield
            finally:
                os.close(held[0])

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise _unavailable(error) from error
        except UnreadableLogin as error:
            raise LoginsUnavailable(UNREADABLE, reason=str(error)) from error

    def _read(self, path: Path, owner: LoginOwner) -> StoredLogin | None:
        found = read_login(path)
        if found is None:
            return None
        stored, is_open = found
        if stored.owner != owner:
            raise UnreadableLogin(f"{path} contains the login of another owner; restore it")
        if is_open and not self._has_warned:
            self._has_warned = True
            log.warning("logins.readable_by_others", path=str(path))
        return stored

    def _is_there(self, path: Path, stored: StoredLogin) -> bool:
        present = self._read(path, stored.owner)
        return present is not None and present.version == stored.version

    def _check_quota(self, quota: Quota, path: Path, stored: StoredLogin) -> None:
        others, old = Usage(), Usage()
        for file in login_files(self._folder):
            if file != path and self._tenant_of(file) != stored.owner.tenant_id:
                continue
            size = file.stat().st_size
            if file == path:
                old = Usage(1, size)
            else:
                others = Usage(others.entries + 1, others.bytes + size)
        quota.check(others=others, old=old, new=Usage(1, len(dump_login(stored))))

    def _tenant_of(self, file: Path) -> str | None:
        if file.name not in self._tenants:
            try:
                found = read_login(file)
            except UnreadableLogin:
                return None
            if found is None:
                return None
            self._tenants[file.name] = found[0].owner.tenant_id
        return self._tenants[file.name]

    def _all_owners(self) -> Sequence[LoginOwner]:
        owners = []
        for path in login_files(self._folder):
            try:
                found = read_login(path)
            except UnreadableLogin as error:
                log.warning("logins.unreadable", reason=str(error))
            else:
                owners += [] if found is None else [found[0].owner]
        return owners

    def _path_of(self, owner: LoginOwner) -> Path:
        return self._folder / f"{owner_key(owner).hex()}{SUFFIX}"


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _unavailable(error: OSError) -> LoginsUnavailable:
    reason = f"the folder of logins cannot be used: {error.strerror or error}"
    return LoginsUnavailable(UNREADABLE, reason=reason)


def read_login(path: Path) -> tuple[StoredLogin, bool] | None:
    """Return the login in a file and whether other users may read it; None without a file.

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
    """Write a login's file and sync it to disk. Raises OSError."""
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
    """Sync a folder to disk, so that an old refresh token cannot reappear."""
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


async def try_lock(path: Path) -> int | None:
    """Lock a file and return its descriptor, which holds the lock until closed; None if it is
    locked.

    Creates a missing file. Runs in a thread; a lock acquired after the caller was cancelled is
    released. Raises OSError.
    """
    attempt = asyncio.ensure_future(asyncio.to_thread(_try_lock, path))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        attempt.add_done_callback(_close_unused)
        raise


def remove_lock(path: Path) -> None:
    """Remove a lock file unless it is locked. Raises OSError."""
    descriptor = _try_lock(path)
    if descriptor is not None:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError, FileNotFoundError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == path.stat().st_ino:  # otherwise the file was removed
                locked, descriptor = descriptor, -1
                return locked
        finally:
            if descriptor != -1:
                os.close(descriptor)
    return None


def _close_unused(attempt: asyncio.Future[int | None]) -> None:
    if attempt.cancelled() or attempt.exception() is not None:
        return
    descriptor = attempt.result()
    if descriptor is not None:
        os.close(descriptor)
