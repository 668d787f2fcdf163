"""Logins in PostgreSQL for replicas; row-level security limits a transaction to its tenant.

Logins of the deployment have no tenant; a transaction must set a flag to see them.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import anyio

from mcp_tools_proxy.domain.errors import DocumentsUnavailable, LoginsUnavailable
from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner
from mcp_tools_proxy.domain.quota import Quota, Usage
from mcp_tools_proxy.storage.logins.login_store import (
    LEASE_S,
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

_RELEASE_S = 5.0
"""Seconds to release a lease, which also expires."""

_OF_DEPLOYMENT = "SELECT set_config('mcp_tools_proxy.deployment_logins', 'on', true)"
_FIND = """
SELECT binding, sealed, version, refresh_sent FROM mcp_tools_proxy.logins WHERE owner_key = $1
"""
_PUT = """
INSERT INTO mcp_tools_proxy.logins (tenant_id, owner_key, owner, binding, sealed, version)
VALUES (coalesce(current_setting('mcp_tools_proxy.tenant', true), ''), $1, $2, $3, $4, $5)
ON CONFLICT (owner_key) DO UPDATE SET binding = excluded.binding, sealed = excluded.sealed,
    version = excluded.version, refresh_sent = false
"""
_LOCK_TENANT = (
    "SELECT pg_advisory_xact_lock(hashtextextended("
    "json_build_array('quota', 'logins', current_setting('mcp_tools_proxy.tenant'))::text, 0))"
)
"""Serializes new logins of a tenant, so that several replicas cannot exceed its quota."""
_USAGE = """
SELECT owner_key = $1 AS is_own, count(*) AS count,
    sum(octet_length(sealed) + octet_length(owner) + octet_length(binding)) AS bytes
FROM mcp_tools_proxy.logins GROUP BY is_own
"""
_REPLACE = """
UPDATE mcp_tools_proxy.logins SET sealed = $3, version = $4, refresh_sent = $5
WHERE owner_key = $1 AND version = $2 RETURNING true
"""
_REMOVE = """
DELETE FROM mcp_tools_proxy.logins WHERE owner_key = $1 AND version = $2 RETURNING true
"""
_OWNERS = "SELECT owner FROM mcp_tools_proxy.logins ORDER BY owner"
_LEASE = """
UPDATE mcp_tools_proxy.logins
SET lease_holder = $2, leased_until = clock_timestamp() + $3 * interval '1 s'
WHERE owner_key = $1 AND (leased_until IS NULL OR leased_until <= clock_timestamp())
RETURNING binding, sealed, version, refresh_sent
"""
_RELEASE = """
UPDATE mcp_tools_proxy.logins SET lease_holder = NULL, leased_until = NULL
WHERE owner_key = $1 AND lease_holder = $2
"""

T = TypeVar("T")


class Rows(Protocol):
    """The part of an asyncpg connection that stores use."""

    async def fetch(self, query: str, /, *args: object) -> Sequence[Any]:
        """Return all rows."""

    async def fetchrow(self, query: str, /, *args: object) -> Any:
        """Return the first row, or None."""

    async def execute(self, query: str, /, *args: object) -> str:
        """Run a statement."""


class TenantTransactions(Protocol):
    """A database with tenant-specific transactions, such as that of the documents."""

    def transaction(self, tenant_id: str) -> AbstractAsyncContextManager[Rows]:
        """Run a transaction that sees the rows of one tenant, and commit at its end.

        Raises DocumentsUnavailable while the database fails.
        """


class PostgresLogins:
    """A LoginStore in a database shared by replicas, whose clock expires the leases."""

    def __init__(self, database: TenantTransactions, *, quota: Quota | None = None) -> None:
        self._database = database
        self._quota = quota
        self._queue = LeaseQueue()

    async def find(self, owner: LoginOwner) -> StoredLogin | None:
        """Return the login of an owner, or None."""
        key = owner_key(owner)
        async with self._transaction(owner.tenant_id) as rows:
            row = await rows.fetchrow(_FIND, key)
        return None if row is None else _login_of(owner, row)

    async def put(self, owner: LoginOwner, binding: LoginBinding, sealed: bytes) -> StoredLogin:
        """Write the login of a new sign-in, replacing the owner's previous one."""
        stored = StoredLogin(owner=owner, binding=binding, sealed=sealed, version=new_version())
        async with self._transaction(owner.tenant_id) as rows:
            if self._quota is not None and owner.tenant_id:
                await _check_quota(self._quota, rows, owner_key(owner), _size_of(stored))
            texts = _texts_of(stored)
            await rows.execute(_PUT, owner_key(owner), *texts, sealed, stored.version)
        return stored

    async def replace(
        self, stored: StoredLogin, sealed: bytes, *, refresh_sent: bool = False
    ) -> StoredLogin | None:
        """Replace ``stored``; return None, without writing, if it has changed."""
        newer = replace(stored, sealed=sealed, version=new_version(), refresh_sent=refresh_sent)
        key = owner_key(stored.owner)
        async with self._transaction(stored.owner.tenant_id) as rows:
            if self._quota is not None and is_growing(stored, newer):
                await _check_quota(self._quota, rows, key, _size_of(newer))
            done = await rows.fetchrow(
                _REPLACE, key, stored.version, sealed, newer.version, refresh_sent
            )
        return None if done is None else newer

    async def remove(self, stored: StoredLogin) -> bool:
        """Remove a login; return False, without removing, if it differs from ``stored``."""
        async with self._transaction(stored.owner.tenant_id) as rows:
            done = await rows.fetchrow(_REMOVE, owner_key(stored.owner), stored.version)
        return done is not None

    async def owners(self, tenant_id: str, *, server_id: str | None = None) -> Sequence[LoginOwner]:
        """Return the owners of one tenant's logins; "" is the deployment."""
        async with self._transaction(tenant_id) as rows:
            found = await rows.fetch(_OWNERS)
        owners = [_read(row["owner"], owner_of_text) for row in found]
        return sorted_owners(owners, tenant_id, server_id)

    @asynccontextmanager
    async def lease(
        self, owner: LoginOwner, *, wait_s: float = LEASE_WAIT_S
    ) -> AsyncIterator[StoredLogin | None]:
        """Hold the exclusive lease on a login, and return its current state.

        The lease is a pair of columns, so no transaction stays open during the lease.
        """
        key, holder = owner_key(owner), secrets.token_hex(16)
        leased: list[StoredLogin] = []

        async def attempt() -> bool:
            try:
                async with self._transaction(owner.tenant_id) as rows:
                    row = await rows.fetchrow(_LEASE, key, holder, LEASE_S)
                    if row is None:
                        return await rows.fetchrow(_FIND, key) is None
            except asyncio.CancelledError:
                await self._release(owner, holder)  # the lease may have been committed
                raise
            leased.append(_login_of(owner, row))
            return True

        async with self._queue.turn(key, attempt, wait_s=wait_s):
            try:
                yield leased[0] if leased else None
            finally:
                if leased:
                    await self._release(owner, holder)

    async def _release(self, owner: LoginOwner, holder: str) -> None:
        with (
            anyio.move_on_after(_RELEASE_S, shield=True),
            suppress(LoginsUnavailable),  # it expires
        ):
            async with self._transaction(owner.tenant_id) as rows:
                await rows.execute(_RELEASE, owner_key(owner), holder)

    @asynccontextmanager
    async def _transaction(self, tenant_id: str) -> AsyncIterator[Rows]:
        try:
            async with self._database.transaction(tenant_id) as rows:
                if not tenant_id:
                    await rows.execute(_OF_DEPLOYMENT)
                yield rows
        except DocumentsUnavailable as error:
            raise LoginsUnavailable(UNREADABLE, reason=error.reason) from error


async def _check_quota(quota: Quota, rows: Rows, key: bytes, size: int) -> None:
    """Check the quota of the transaction's tenant. Raises QuotaExceeded."""
    await rows.execute(_LOCK_TENANT)
    found = await rows.fetch(_USAGE, key)
    usage = {row["is_own"]: Usage(row["count"], int(row["bytes"])) for row in found}
    others, old = usage.get(False, Usage()), usage.get(True, Usage())
    quota.check(others=others, old=old, new=Usage(1, size))


def _texts_of(stored: StoredLogin) -> tuple[bytes, bytes]:
    return encoded(owner_text(stored.owner)), encoded(binding_text(stored.binding))


def _size_of(stored: StoredLogin) -> int:
    """Return the size of a login as counted by ``_USAGE``."""
    return len(stored.sealed) + sum(map(len, _texts_of(stored)))


def _login_of(owner: LoginOwner, row: Any) -> StoredLogin:
    """Return the login in a row. Raises LoginsUnavailable.

    ``owner`` is the requested one, not the row's: with another one, decryption fails.
    """
    return StoredLogin(
        owner=owner,
        binding=_read(row["binding"], binding_of_text),
        sealed=row["sealed"],
        version=row["version"],
        refresh_sent=row["refresh_sent"],
    )


def _read(content: bytes, parse: Callable[[str], T]) -> T:
    try:
        return parse(decoded(content))
    except ValueError as error:
        raise LoginsUnavailable(
            UNREADABLE, reason="a row of logins is damaged, or was written by a newer release"
        ) from error
