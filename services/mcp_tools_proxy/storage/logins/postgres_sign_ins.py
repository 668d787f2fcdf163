"""Unfinished sign-ins in PostgreSQL for replicas; a transaction sees only the record it names."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

from mcp_tools_proxy.domain.errors import DocumentsUnavailable, LoginsUnavailable
from mcp_tools_proxy.storage.logins.login_store import encoded
from mcp_tools_proxy.storage.logins.postgres_logins import Rows, TenantTransactions
from mcp_tools_proxy.storage.logins.sign_in_store import UNUSABLE, RecordKind

_NAME = "SELECT set_config('mcp_tools_proxy.sign_in', $1, true)"
_ADD = "SELECT mcp_tools_proxy.add_sign_in($1, $2, $3, $4, $5, $6) AS content"
_REPLACE = """
UPDATE mcp_tools_proxy.sign_ins SET content = $3
WHERE kind = $1 AND name = $2 AND ends_at > clock_timestamp() RETURNING content
"""
_FIND = """
SELECT content FROM mcp_tools_proxy.sign_ins
WHERE kind = $1 AND name = $2 AND ends_at > clock_timestamp()
"""
_TAKE = """
DELETE FROM mcp_tools_proxy.sign_ins
WHERE kind = $1 AND name = $2 AND ends_at > clock_timestamp() RETURNING content
"""

_LIST = "SELECT content FROM mcp_tools_proxy.approvals_of($1, $2) AS content"


class PostgresSignIns:
    """A SignInStore in a database, whose clock expires the records; adding one deletes expired
    ones.

    Transactions name no tenant, because an issuer's response does not identify it.
    """

    is_shared = True

    def __init__(self, database: TenantTransactions) -> None:
        self._database = database

    def __repr__(self) -> str:
        return "<PostgresSignIns>"

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        """Return the existing record or add ``content``; None if the limit is reached."""
        return await self._content(_ADD, kind, name, content, ttl_s, kind.limit, share)

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change an existing record and keep its expiry."""
        await self._content(_REPLACE, kind, name, content)

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record; None if it is missing or expired."""
        return await self._content(_FIND, kind, name)

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove and return a record; of concurrent calls, only one receives it."""
        return await self._content(_TAKE, kind, name)

    async def approvals(self, share: str, most: int) -> Sequence[bytes]:
        """Return the approvals of a share, at most those ``most`` that expire last."""
        async with self._transaction("") as rows:
            found: Any = await rows.fetch(_LIST, share, most)
        return [row["content"] for row in found]

    async def aclose(self) -> None:
        """Leave the database open: the login store owns and closes it."""

    async def _content(
        self, statement: str, kind: RecordKind, name: str, *more: object
    ) -> bytes | None:
        """Return the content returned by a statement on one record."""
        key = _key_of(name)
        async with self._transaction(key) as rows:
            row: Any = await rows.fetchrow(statement, kind.value, key, *more)
        return None if row is None else row["content"]

    @asynccontextmanager
    async def _transaction(self, key: str) -> AsyncIterator[Rows]:
        try:
            async with self._database.transaction("") as rows:
                await rows.execute(_NAME, key)
                yield rows
        except DocumentsUnavailable as error:
            raise LoginsUnavailable(UNUSABLE, reason=error.reason) from error


def _key_of(name: str) -> str:
    """Return the key of a name, which can be of an address typed by anyone."""
    return sha256(encoded(name)).hexdigest()
