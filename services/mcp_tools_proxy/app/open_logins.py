"""Builds the store of the logins to servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_tools_proxy.settings.settings import Settings

if TYPE_CHECKING:
    from mcp_tools_proxy.documents.postgres.database import Database
    from mcp_tools_proxy.logins.login_sealer import LoginSealer
    from mcp_tools_proxy.logins.login_store import LoginStore


class OpenLogins:
    """Opens the store when it is first needed: in PostgreSQL where documents are, else in files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database: Database | None = None

    @property
    def are_possible(self) -> bool:
        """Whether there is a key to seal logins with."""
        return bool(self._settings.credentials_key)

    def open(self) -> "tuple[LoginStore, LoginSealer] | None":
        """Return the store, and what seals logins; None without a key.

        Modules are imported where they are used: those of PostgreSQL and of ciphers load slowly.
        """
        if not self.are_possible:
            return None
        from mcp_tools_proxy.logins.login_sealer import LoginSealer  # noqa: PLC0415 - see above

        keys = [key.get_secret_value().encode() for key in self._settings.credentials_key]
        return self._store(), LoginSealer(keys)

    async def aclose(self) -> None:
        """Close the connections to the database."""
        if self._database is not None:
            await self._database.close()

    def _store(self) -> "LoginStore":
        url = self._settings.documents_url
        if url is None:
            from mcp_tools_proxy.logins.file_logins import FileLogins  # noqa: PLC0415 - see above

            return FileLogins(self._settings.logins_dir)
        from mcp_tools_proxy.documents.postgres.database import Database  # noqa: PLC0415
        from mcp_tools_proxy.logins.postgres_logins import PostgresLogins  # noqa: PLC0415

        self._database = Database(
            url.get_secret_value(), timeout_s=self._settings.documents_timeout
        )
        return PostgresLogins(self._database)


@asynccontextmanager
async def opened_logins(settings: Settings) -> "AsyncIterator[tuple[LoginStore, LoginSealer]]":
    """Yield the store of logins, and what opens them, for commands. Raises ValueError."""
    logins = OpenLogins(settings)
    opened = logins.open()
    if opened is None:
        raise ValueError("there is no key to open logins with")
    try:
        yield opened
    finally:
        await logins.aclose()
