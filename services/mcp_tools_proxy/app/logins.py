"""Opens the stores of logins to servers, unfinished sign-ins and console sessions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mcp_tools_proxy.app.optional import Lazy
from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.logins import LoginAccess, LoginFacts, LoginOwner
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.domain.server import LoginFor
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_keys, variable

if TYPE_CHECKING:
    from mcp_tools_proxy.documents.postgres.database import Database
    from mcp_tools_proxy.downstream.oauth.session_tokens import OAuthAccess
    from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer
    from mcp_tools_proxy.storage.logins.login_store import LoginStore
    from mcp_tools_proxy.storage.logins.postgres_sign_ins import PostgresSignIns
    from mcp_tools_proxy.storage.logins.redis_sign_ins import RedisSignIns
    from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns


class StoredLoginAccess:
    """The stored logins of current and former servers."""

    def __init__(
        self, oauth: "Lazy[OAuthAccess]", configuration: Callable[[], Configuration]
    ) -> None:
        self._oauth = oauth
        self._configuration = configuration

    def is_of_users(self, server_id: str) -> bool:
        """Return whether each user signs in to this server separately."""
        config = self._configuration().servers.get(server_id)
        auth = None if config is None else config.auth
        return auth is not None and auth.grant.needs_person and auth.login_for is LoginFor.USER

    async def logins_of(
        self, tenant_id: str, *, user_id: str | None = None
    ) -> Sequence[LoginFacts]:
        """Return the logins of a tenant ("" is the deployment) or of one user."""
        logins = (await self._oauth.open()).parts.logins
        return () if logins is None else await logins.facts(tenant_id, user_id=user_id)

    async def sign_out(self, owner: LoginOwner) -> bool:
        """Revoke and delete a login; return whether it existed."""
        from mcp_tools_proxy.downstream.oauth.server_sign_in import sign_out  # noqa: PLC0415 - slow

        config = self._configuration().servers.get(owner.server_id)
        return await sign_out((await self._oauth.open()).parts, config, owner) is not None


def build_login_access(
    logins: "OpenLogins", oauth: "Lazy[OAuthAccess]", configuration: Callable[[], Configuration]
) -> LoginAccess | None:
    """Build the access to logins; None if logins are not stored."""
    return StoredLoginAccess(oauth, configuration) if logins.are_possible else None


class OpenLogins:
    """Opens the store on first use: in PostgreSQL if documents are there, otherwise in files.

    ``quota`` limits the logins of a tenant.
    """

    def __init__(self, settings: Settings, *, quota: Quota | None = None) -> None:
        self._settings = settings
        self._quota = quota
        self._database: Database | None = None

    @property
    def are_possible(self) -> bool:
        """Whether a key to seal logins is configured."""
        return bool(self._settings.credentials_key)

    def open(self) -> "tuple[LoginStore, LoginSealer] | None":
        """Return the store and the sealer of logins; None without a key.

        Modules are imported locally: those of PostgreSQL and ciphers are slow to load.
        """
        if not self.are_possible:
            return None
        from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer  # noqa: PLC0415 - see above

        keys = secret_keys(self._settings.credentials_key)
        return self._store(), LoginSealer(keys)

    async def aclose(self) -> None:
        """Close the connections to the database."""
        if self._database is not None:
            await self._database.close()

    def database(self) -> "Database | None":
        """Return the database on first use, if documents are in PostgreSQL."""
        url = self._settings.documents_url
        if url is None:
            return None
        if self._database is None:
            from mcp_tools_proxy.documents.postgres.database import Database  # noqa: PLC0415 - slow

            self._database = Database(
                url.get_secret_value(), timeout_s=self._settings.documents_timeout
            )
        return self._database

    def _store(self) -> "LoginStore":
        database = self.database()
        if database is None:
            from mcp_tools_proxy.storage.logins.file_logins import FileLogins  # noqa: PLC0415 - see above

            return FileLogins(self._settings.logins_dir, quota=self._quota)
        from mcp_tools_proxy.storage.logins.postgres_logins import PostgresLogins  # noqa: PLC0415

        return PostgresLogins(database, quota=self._quota)


def open_sign_in_store(
    settings: Settings, logins: OpenLogins
) -> "MemorySignIns | PostgresSignIns | RedisSignIns":
    """Open the store that the settings select. Raises ValueError for an unusable URL of Redis.

    Its module is imported here: redis-py alone is 9 MB.
    """
    url = settings.state_url
    if url is not None:
        from mcp_tools_proxy.storage.logins import redis_sign_ins  # noqa: PLC0415
        from mcp_tools_proxy.storage.redis_pool import open_pool  # noqa: PLC0415

        pool = open_pool(
            url.get_secret_value(),
            max_connections=redis_sign_ins.MAX_CONNECTIONS,
            variable=variable("state_url"),
        )
        return redis_sign_ins.RedisSignIns(pool)
    database = logins.database()
    if database is None:
        from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns  # noqa: PLC0415

        return MemorySignIns()
    from mcp_tools_proxy.storage.logins.postgres_sign_ins import PostgresSignIns  # noqa: PLC0415

    return PostgresSignIns(database)
