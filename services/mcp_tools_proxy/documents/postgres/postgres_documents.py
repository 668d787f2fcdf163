"""The documents in PostgreSQL as a whole: the pool, the store over it, the feed of changes."""

from collections.abc import Mapping

from mcp_tools_proxy.documents.document_writer import KEEP_VERSIONS
from mcp_tools_proxy.documents.postgres.change_feed import ChangeFeed
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.store import PostgresStore
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.domain.quota import Quota


class PostgresDocuments:
    """Keeps up with documents in PostgreSQL (OpenDocuments)."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        stale_s: float,
        keep_versions: int = KEEP_VERSIONS,
        quota: Quota | None = None,
    ) -> None:
        self.database = Database(url, timeout_s=timeout_s)
        self._feed = ChangeFeed(self.database, stale_s=stale_s)
        self.store = PostgresStore(self.database, self._feed)
        self.writer = PostgresWriter(self.database, keep_versions=keep_versions, quota=quota)

    def readiness(self) -> Mapping[str, object]:
        """Return whether the database can be read, and how changes are known."""
        return self._feed.state

    async def connect(self) -> None:
        """Check the database once, for no longer than a call waits; it may be away."""
        await self._feed.check()

    async def run(self) -> None:
        """Follow the changes, until cancelled."""
        await self._feed.run()

    async def close(self) -> None:
        """Close every connection."""
        await self.database.close()
