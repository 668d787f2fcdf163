"""Run stores, opened as the gateway opens them: two over shared storage, or one in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from redis import Redis

from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.policy.runs.run_memory import RunCall, RunMemory
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX, open_pool
from mcp_tools_proxy.storage.redis_requests import MAX_CONNECTIONS
from mcp_tools_proxy.storage.runs.postgres_runs import PostgresRunStore
from mcp_tools_proxy.storage.runs.redis_runs import RedisRunStore
from mcp_tools_proxy.storage.runs.run_store import (
    MemoryRunStore,
    RunKey,
    RunLimits,
    RunStore,
)
from mcp_tools_proxy.storage.runs.shared_runs import RunCipher
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import PostgresDatabase
from tests.support.virtual_time import ManualClock

SECRET = b"a secret of at least 32 characters"
IDLE_S, MARK_S = 100.0, 1000.0


def key(name: str = "r", tenant: str = "t", owner: str = "u") -> RunKey:
    digests = (f"{tenant}/{owner}", f"{tenant}/{owner}/{name}")
    return RunKey(tenant, *(it.encode().ljust(32, b".") for it in digests))


def limits(**options: Any) -> RunLimits:
    return RunLimits(**({"idle_s": IDLE_S, "mark_s": MARK_S} | options))


def cipher(secret: bytes = SECRET) -> RunCipher:
    return RunCipher(RecordCipher([secret]))


def redis_runs(url: str, secret: bytes = SECRET, **options: Any) -> RedisRunStore:
    defaults: dict[str, Any] = {"limits": limits(), "variable": "X", "check_s": 0.05}
    pool = open_pool(url, max_connections=MAX_CONNECTIONS)
    return RedisRunStore(pool, cipher(secret), **(defaults | options))


def postgres_runs(url: str, secret: bytes = SECRET, **options: Any) -> PostgresRunStore:
    defaults: dict[str, Any] = {"limits": limits()}
    database = Database(url, timeout_s=options.pop("timeout_s", BOUND_S))
    return PostgresRunStore(database, cipher(secret), close=database.close, **(defaults | options))


@asynccontextmanager
async def opened(store: RunStore) -> AsyncIterator[RunStore]:
    await store.connect()
    running = asyncio.ensure_future(store.run())
    try:
        yield store
    finally:
        running.cancel()
        await store.close()


@dataclass(frozen=True, slots=True)
class RunReplicas:
    """Stores over the same runs, one for each replica, and control of their time."""

    stores: tuple[RunStore, ...]
    advance: Callable[[float], Awaitable[None]]


async def open_replicas(
    kind: str,
    stack: AsyncExitStack,
    *,
    redis_url: str,
    postgres: PostgresDatabase,
    **options: Any,
) -> RunReplicas:
    clock = ManualClock()
    wanted = limits(**options)
    made: tuple[RunStore, ...]
    if kind == "memory":
        made = (MemoryRunStore(wanted, max_bytes=10**8, clock=clock),)
    elif kind == "redis":
        made = tuple(redis_runs(redis_url, limits=wanted, clock=clock) for _ in range(2))
    else:
        made = tuple(postgres_runs(postgres.url, limits=wanted, clock=clock) for _ in range(2))
    for it in made:
        await stack.enter_async_context(opened(it))

    async def advance(seconds: float) -> None:
        clock.now += seconds
        if kind == "redis":
            age_redis_runs(redis_url, seconds)
        elif kind == "postgres":
            await age_postgres_runs(postgres.owner_url, seconds)

    return RunReplicas(made, advance)


def age_redis_runs(url: str, seconds: float) -> None:
    """Make each run and mark in a Redis this many seconds older."""
    earlier_ms = int(seconds * 1000)
    with Redis.from_url(url) as client:
        for name in client.scan_iter(f"{KEY_PREFIX}:runs:{{*"):
            if client.type(name) == b"zset":
                for member, score in client.zscan_iter(name):
                    client.zadd(name, {member: int(score) - earlier_ms})
            client.pexpire(name, max(1, client.pttl(name) - earlier_ms))
            if client.pttl(name) <= 1:
                client.delete(name)


async def age_postgres_runs(owner_url: str, seconds: float) -> None:
    """Make each run and mark in a database this many seconds older."""
    connection = await asyncpg.connect(owner_url)
    try:
        await connection.execute(
            "UPDATE mcp_tools_proxy.runs SET began_at = began_at - $1 * interval '1 s', "
            "ends_at = ends_at - $1 * interval '1 s', "
            "mark_ends_at = mark_ends_at - $1 * interval '1 s'",
            seconds,
        )
    finally:
        await connection.close()


def one_call(tool: str = "mail:send") -> RunCall:
    return RunCall(tool=tool, labels=frozenset(), server="mail", digest=b"d" * 32)


def count_call(memory: RunMemory) -> int:
    """Reserve a call; the change that most tests make."""
    return memory.reserve(one_call())


def read_calls(memory: RunMemory) -> int:
    return memory.calls
