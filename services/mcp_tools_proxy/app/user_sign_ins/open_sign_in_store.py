"""Opens the store of unfinished sign-ins and of the console's sessions."""

from mcp_tools_proxy.app.open_logins import OpenLogins
from mcp_tools_proxy.logins.sign_ins.memory_sign_ins import MemorySignIns
from mcp_tools_proxy.logins.sign_ins.postgres_sign_ins import PostgresSignIns
from mcp_tools_proxy.logins.sign_ins.redis_sign_ins import MAX_CONNECTIONS, RedisSignIns
from mcp_tools_proxy.redis_client.connection_pool import open_pool
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable


def open_sign_in_store(
    settings: Settings, logins: OpenLogins
) -> MemorySignIns | PostgresSignIns | RedisSignIns:
    """Open the store that the settings select. Raises ValueError for an unusable URL of Redis."""
    url = settings.state_url
    if url is not None:
        pool = open_pool(
            url.get_secret_value(), max_connections=MAX_CONNECTIONS, variable=variable("state_url")
        )
        return RedisSignIns(pool)
    database = logins.database()
    return MemorySignIns() if database is None else PostgresSignIns(database)
