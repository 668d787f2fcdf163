import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import asyncpg
import pytest
import redis

from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.storage.logins.postgres_sign_ins import PostgresSignIns
from mcp_tools_proxy.storage.logins.redis_sign_ins import MAX_CONNECTIONS, RedisSignIns
from mcp_tools_proxy.storage.logins.sign_in_store import RecordKind, RecordSealer, SignInStore
from mcp_tools_proxy.storage.redis_pool import open_pool
from tests.support.bounds import BOUND_S
from tests.support.postgres_databases import Databases, PostgresDatabase
from tests.support.redis_server import RedisServer
from tests.support.service import eventually
from tests.support.sign_in_stores import HeldClock, advance_postgres, advance_redis

PENDING = RecordKind.PENDING
APPROVAL = RecordKind.APPROVAL
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Replicas:
    """Stores over the same records, one for each replica, and control of their time."""

    stores: tuple[SignInStore, ...]
    advance: Callable[[float], Awaitable[None]]


@pytest.fixture(params=["memory", "redis", "postgres"])
async def replicas(
    request: pytest.FixtureRequest, databases: Databases, shared_server: RedisServer
) -> AsyncIterator[Replicas]:
    """One store in memory, or two over shared storage."""
    if request.param == "memory":
        clock = HeldClock()
        yield Replicas((clock.store(),), clock.advance)
        return
    if request.param == "postgres":
        made = await databases.new()
        opened = [Database(made.url, timeout_s=BOUND_S) for _ in range(2)]
        stores = tuple(map(PostgresSignIns, opened))
        yield Replicas(stores, partial(advance_postgres, made.owner_url))
        for database in opened:
            await database.close()
        return
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    shared = [
        RedisSignIns(open_pool(shared_server.url, max_connections=MAX_CONNECTIONS))
        for _ in range(2)
    ]
    yield Replicas(tuple(shared), partial(advance_redis, shared_server.url))
    for it in shared:
        await it.aclose()


@pytest.fixture
def store(replicas: Replicas) -> SignInStore:
    return replicas.stores[0]


async def test_of_several_parallel_adds_and_takes_one_succeeds(replicas: Replicas) -> None:
    stores = replicas.stores * 4
    added = await asyncio.gather(
        *(it.add(PENDING, "a", b"%d" % n, 60) for n, it in enumerate(stores))
    )
    assert len(set(added)) == 1
    assert added[0] is not None
    taken = await asyncio.gather(*(it.take(PENDING, "a") for it in stores))
    assert [it for it in taken if it is not None] == [added[0]]
    assert [await it.find(PENDING, "a") for it in stores] == [None] * len(stores)


async def test_stores_report_whether_replicas_share_them(replicas: Replicas) -> None:
    assert [it.is_shared for it in replicas.stores] == [len(replicas.stores) > 1] * len(
        replicas.stores
    )


async def test_only_an_existing_record_can_be_changed(store: SignInStore) -> None:
    await store.replace(PENDING, "a", b"new")
    assert await store.find(PENDING, "a") is None
    await store.add(PENDING, "a", b"old", 60)
    await store.replace(PENDING, "a", b"new")
    assert await store.find(PENDING, "a") == b"new"
    assert await store.find(RecordKind.BROWSER, "a") is None


async def fill(store: SignInStore, kind: RecordKind, count: int, share: str = "") -> None:
    """Add records, more in parallel than a store has connections."""
    for first in range(0, count, 50):
        names = [f"{share}{number}" for number in range(first, min(first + 50, count))]
        added = await asyncio.gather(
            *(store.add(kind, name, b"x", HOUR_S, share=share) for name in names)
        )
        assert added == [b"x"] * len(names)


async def test_at_most_two_thousand_records_exist_and_taking_one_frees_its_place(
    replicas: Replicas,
) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    await fill(store, PENDING, 1999)
    both = await asyncio.gather(
        *(it.add(PENDING, n, b"x", HOUR_S) for it, n in ((store, "p"), (last, "q")))
    )
    assert sorted(both, key=str) == [None, b"x"]
    assert await last.add(PENDING, "one more", b"x", HOUR_S) is None
    assert await last.add(PENDING, "7", b"y", HOUR_S) == b"x"
    assert await last.add(RecordKind.BROWSER, "one more", b"x", HOUR_S) == b"x"
    await store.take(PENDING, "7")
    assert await last.add(PENDING, "one more", b"x", HOUR_S) is not None
    await replicas.advance(HOUR_S)
    assert await last.add(PENDING, "after their time", b"x", HOUR_S) is not None


@pytest.mark.parametrize("kind", [PENDING, RecordKind.CONSOLE])
async def test_a_share_has_at_most_as_many_records_as_are_free(
    replicas: Replicas, kind: RecordKind
) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    await fill(store, kind, 1000, "a")
    assert await last.add(kind, "one more", b"x", HOUR_S, share="a") is None
    assert await last.add(kind, "a7", b"y", HOUR_S, share="a") == b"x"
    await fill(last, kind, 500, "b")
    assert await store.add(kind, "one more", b"x", HOUR_S, share="b") is None
    assert await store.add(kind, "c", b"x", HOUR_S, share="c") == b"x"
    assert await store.add(kind, "of no share", b"x", HOUR_S) == b"x"
    await last.take(kind, "a7")
    assert await last.add(kind, "one more", b"x", HOUR_S, share="a") is None
    assert await last.add(kind, "one more", b"x", HOUR_S, share="b") is None


async def test_taken_and_expired_records_free_their_place_in_a_share(
    replicas: Replicas,
) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    await fill(store, PENDING, 1000, "a")
    for name in ("a1", "a2"):
        await last.take(PENDING, name)
    assert await store.add(PENDING, "first", b"x", HOUR_S, share="a") == b"x"
    assert await store.add(PENDING, "second", b"x", HOUR_S, share="a") == b"x"
    assert await store.add(PENDING, "third", b"x", HOUR_S, share="a") is None
    await replicas.advance(HOUR_S)
    await fill(last, PENDING, 1000, "a")


async def test_only_the_approvals_of_a_share_are_listed_the_last_to_expire_first(
    replicas: Replicas,
) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    for number in range(5):
        content = b"%d" % number
        await store.add(APPROVAL, f"a{number}", content, HOUR_S + number * 60, share="a")
    await store.add(APPROVAL, "b", b"other share", HOUR_S, share="b")
    await store.add(APPROVAL, "none", b"no share", HOUR_S)
    await store.add(PENDING, "a0", b"other kind", HOUR_S, share="a")
    assert await last.approvals("a", 10) == [b"4", b"3", b"2", b"1", b"0"]
    assert await last.approvals("a", 2) == [b"4", b"3"]
    assert await last.approvals("", 10) == await last.approvals("c'; --", 10) == []
    await last.take(APPROVAL, "a4")
    await store.replace(APPROVAL, "a3", b"changed")
    assert await store.approvals("a", 2) == [b"changed", b"2"]
    await replicas.advance(HOUR_S + 90)
    assert await last.approvals("a", 10) == [b"changed", b"2"]
    await replicas.advance(HOUR_S)
    assert await last.approvals("a", 10) == []


async def test_a_record_expires(replicas: Replicas) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    await store.add(PENDING, "a", b"old", HOUR_S)
    await replicas.advance(HOUR_S / 2)
    assert await last.add(PENDING, "a", b"new", 2 * HOUR_S) == b"old"
    await last.replace(PENDING, "a", b"changed")
    assert await store.find(PENDING, "a") == b"changed"
    await replicas.advance(HOUR_S / 2)
    await store.replace(PENDING, "a", b"late")
    assert await last.find(PENDING, "a") is None
    assert await last.take(PENDING, "a") is None
    assert await store.add(PENDING, "a", b"next", HOUR_S) == b"next"


async def test_an_invented_address_finds_nothing(store: SignInStore) -> None:
    await store.add(PENDING, "a", b"x", HOUR_S)
    for name in ("", "a\x00b", "\ud83d", "%", "'; DROP", "a" * 10_000):
        assert await store.find(PENDING, name) is None
        assert await store.take(PENDING, name) is None
    assert await store.find(PENDING, "a") == b"x"


async def test_a_redis_that_may_evict_keys_stores_no_sign_in(shared_server: RedisServer) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        shared = RedisSignIns(open_pool(shared_server.url, max_connections=1))
        try:
            with pytest.raises(LoginsUnavailable):
                await shared.add(PENDING, "a", b"x", 60)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
            await shared.aclose()


SEEN = "SELECT content FROM mcp_tools_proxy.sign_ins"


async def test_a_transaction_sees_only_the_record_that_it_names(
    databases: Databases,
) -> None:
    made = await databases.new()
    database = Database(made.url, timeout_s=BOUND_S)
    store = PostgresSignIns(database)
    for name in ("a", "b"):
        await store.add(PENDING, name, name.encode(), HOUR_S)
    owner, gateway = [await asyncpg.connect(it) for it in (made.owner_url, made.url)]
    rows = await owner.fetch("SELECT name, content FROM mcp_tools_proxy.sign_ins")
    names = {bytes(row["content"]): row["name"] for row in rows}
    assert set(names) == {b"a", b"b"}
    for setting in ("tenant", "sign_in"):
        assert await seen(gateway, setting, "") == []
    assert await seen(gateway, "tenant", "acme") == []
    assert await seen(gateway, "sign_in", names[b"a"]) == [b"a"]
    assert await gateway.fetch(SEEN) == []
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await gateway.execute(
            "INSERT INTO mcp_tools_proxy.sign_ins VALUES ('pending', 'c', 'c', now())"
        )
    for connection in (owner, gateway):
        await connection.close()
    await database.close()


async def seen(connection: asyncpg.Connection, setting: str, value: str) -> list[bytes]:
    """Return the contents visible to a transaction with a setting."""
    async with connection.transaction():
        await connection.execute(
            "SELECT set_config('mcp_tools_proxy.' || $1, $2, true)", setting, value
        )
        return [row["content"] for row in await connection.fetch(SEEN)]


async def test_adding_a_record_removes_expired_ones(
    postgres: PostgresDatabase,
) -> None:
    database = Database(postgres.url, timeout_s=BOUND_S)
    store = PostgresSignIns(database)
    for kind in RecordKind:
        await store.add(kind, "old", b"old", HOUR_S)
    await advance_postgres(postgres.owner_url, HOUR_S)
    await store.add(PENDING, "new", b"new", HOUR_S)
    owner = await asyncpg.connect(postgres.owner_url)
    assert [row["content"] for row in await owner.fetch(SEEN)] == [b"new"]
    await owner.close()
    await database.close()


WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def test_parallel_adds_of_replicas_are_counted_one_after_the_other(
    postgres: PostgresDatabase,
) -> None:
    database = Database(postgres.url, timeout_s=BOUND_S)
    store = PostgresSignIns(database)
    owner, gateway = [await asyncpg.connect(it) for it in (postgres.owner_url, postgres.url)]
    await owner.execute(
        "INSERT INTO mcp_tools_proxy.sign_ins SELECT 'pending', n, 'x', now() + interval '1 hour' "
        "FROM generate_series(1, 1999) n"
    )
    async with gateway.transaction():
        await gateway.execute(
            "SELECT mcp_tools_proxy.add_sign_in('pending', 'the last', 'x', 3600, 2000, '')"
        )
        adding = asyncio.ensure_future(store.add(PENDING, "one more", b"x", HOUR_S))

        async def waits() -> bool:
            return adding.done() or await owner.fetchval(WAITING) > 0

        await eventually(waits)
    assert await adding is None
    for connection in (owner, gateway):
        await connection.close()
    await database.close()


async def test_an_unavailable_database_is_a_temporary_error(
    postgres: PostgresDatabase,
) -> None:
    database = Database(postgres.server.url("gateway", postgres.name, port=1), timeout_s=BOUND_S)
    store = PostgresSignIns(database)
    for attempt in (store.add(PENDING, "a", b"x", 60), store.take(PENDING, "a")):
        with pytest.raises(LoginsUnavailable, match="cannot be stored now") as refused:
            await attempt
        assert (refused.value.retryable, bool(refused.value.reason)) == (True, True)
    await database.close()


def test_a_record_can_be_opened_only_with_its_name() -> None:
    sealer = RecordSealer([b"k" * 32])
    sealed = sealer.seal(b"state", "one")
    assert (sealer.open(sealed, "one"), sealer.open(sealed, "two")) == (b"state", None)
    assert sealer.name_of("a", "bc") != sealer.name_of("ab", "c")
