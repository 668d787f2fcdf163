"""What the stores in PostgreSQL need of a database; nothing of ``documents`` is imported."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Rows(Protocol):
    """What the stores need of a connection of asyncpg."""

    async def fetch(self, query: str, /, *args: object) -> Sequence[Any]:
        """Return all rows."""

    async def fetchrow(self, query: str, /, *args: object) -> Any:
        """Return the first row, None for none."""

    async def execute(self, query: str, /, *args: object) -> str:
        """Run a statement."""


class TenantTransactions(Protocol):
    """A database in which each transaction names its tenant: that of the documents is one."""

    def transaction(self, tenant_id: str) -> AbstractAsyncContextManager[Rows]:
        """Run a transaction that sees the rows of one tenant, and commit at its end.

        Raises DocumentsUnavailable while the database does not work.
        """
