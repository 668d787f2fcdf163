"""Opens the store of unfinished sign-ins and of the console's sessions."""

from typing import TYPE_CHECKING

from mcp_tools_proxy.app.open_logins import OpenLogins
from mcp_tools_proxy.logins.sign_ins.sign_in_store import MemorySignIns
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable

if TYPE_CHECKING:
    from mcp_tools_proxy.logins.sign_ins.postgres_sign_ins import PostgresSignIns
    from mcp_tools_proxy.logins.sign_ins.redis_sign_ins import RedisSignIns


def open_sign_in_store(
    settings: Settings, logins: OpenLogins
) -> "MemorySignIns | PostgresSignIns | RedisSignIns":
    """Open the store that the settings select. Raises ValueError for an unusable URL of Redis.

    Its module is imported here: redis-py alone is 9 MB.
    """
    url = settings.state_url
    if url is not None:
        from mcp_tools_proxy.logins.sign_ins import redis_sign_ins  # noqa: PLC0415
        from mcp_tools_proxy.redis_client.connection_pool import open_pool  # noqa: PLC0415

        pool = open_pool(
            url.get_secret_value(),
            max_connections=redis_sign_ins.MAX_CONNECTIONS,
            variable=variable("state_url"),
        )
        return redis_sign_ins.RedisSignIns(pool)
    database = logins.database()
    if database is None:
        return MemorySignIns()
    from mcp_tools_proxy.logins.sign_ins.postgres_sign_ins import PostgresSignIns  # noqa: PLC0415

    return PostgresSignIns(database)
