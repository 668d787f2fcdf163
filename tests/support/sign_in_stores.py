"""Stores of unfinished sign-ins with a controllable clock."""

import asyncpg
from redis import Redis

from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX

_KINDS = ("pending", "browser", "approval")


class HeldClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    async def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def store(self) -> MemorySignIns:
        return MemorySignIns(self)


async def advance_redis(url: str, seconds: float) -> None:
    """Expire each record in a Redis this many seconds earlier."""
    with Redis.from_url(url) as client:
        for kind in _KINDS:
            prefix = f"{KEY_PREFIX}:{{sign-ins}}:{kind}"
            for names in (prefix, *client.scan_iter(f"{prefix}-of:*")):
                for name, ends_ms in client.zscan_iter(names):
                    earlier = int(ends_ms - seconds * 1000)
                    client.zadd(names, {name: earlier})
                    client.pexpireat(name, earlier)


async def advance_postgres(owner_url: str, seconds: float) -> None:
    """Expire each record in a database this many seconds earlier."""
    connection = await asyncpg.connect(owner_url)
    try:
        await connection.execute(
            "UPDATE mcp_tools_proxy.sign_ins SET ends_at = ends_at - $1 * interval '1 s'", seconds
        )
    finally:
        await connection.close()
