"""Console sessions: stored data, expiry, and sharing between replicas."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_tools_proxy.console.sessions import (
    MAX_SESSIONS_TENANT,
    MAX_TRIES,
    MAX_TRIES_BYTES,
    SESSION_S,
    Session,
    Sessions,
)
from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.storage.logins.redis_sign_ins import MAX_CONNECTIONS, RedisSignIns
from mcp_tools_proxy.storage.logins.sign_in_store import MAX_CONSOLE_SESSIONS, MemorySignIns
from mcp_tools_proxy.storage.redis_pool import open_pool
from tests.support.bounds import BOUND_S
from tests.support.console_browser import (
    ADMIN,
    SIGN_IN,
    ConsoleBrowser,
    Html,
    running_console,
)
from tests.support.postgres_databases import Databases
from tests.support.redis_server import RedisServer, running_redis
from tests.support.service import running
from tests.support.sign_in_stores import HeldClock

TOKEN = "mtp_a-token-of-somebody"
OWNER = (("token_id", "ann"),)
SERVERS_PAGE = "/console/servers"


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def store(clock: HeldClock) -> MemorySignIns:
    return clock.store()


@pytest.fixture
def sessions(store: MemorySignIns, clock: HeldClock) -> Sessions:
    return Sessions(store, clock)


async def test_a_session_ends_after_eight_hours(sessions: Sessions, clock: HeldClock) -> None:
    session = await sessions.begin(TOKEN, OWNER)
    await clock.advance(SESSION_S - 1)
    assert await sessions.find(session.cookie) == session
    await clock.advance(1)
    assert await sessions.find(session.cookie) is None


async def test_a_session_of_a_jwt_expires_with_it(sessions: Sessions, clock: HeldClock) -> None:
    session = await sessions.begin(TOKEN, OWNER, ends_at=300.0)
    await clock.advance(299)
    assert await sessions.find(session.cookie) == session
    await clock.advance(1)
    assert await sessions.find(session.cookie) is None


async def test_the_session_store_reveals_neither_cookies_nor_tokens(
    sessions: Sessions, store: MemorySignIns
) -> None:
    session = await sessions.begin(TOKEN, OWNER)
    await sessions.add_try(session, {"tool": "a-secret-tool"})
    kept = repr(store._records)
    for secret in (session.cookie, TOKEN, "a-secret-tool", session.csrf):
        assert secret not in kept


async def test_a_record_in_the_place_of_another_is_ignored(
    sessions: Sessions, store: MemorySignIns
) -> None:
    one, other = await sessions.begin(TOKEN, OWNER), await sessions.begin("another", OWNER)
    # the two records of a session: its tries and its token
    (first, one_record), (second, other_record) = [*store._records.items()][1::2]
    store._records = {first: other_record, second: one_record}
    assert (await sessions.find(one.cookie), await sessions.find(other.cookie)) == (None, None)


async def test_a_session_stores_its_last_tries(sessions: Sessions) -> None:
    session = await sessions.begin(TOKEN, OWNER)
    for number in range(MAX_TRIES + 5):
        await sessions.add_try(session, {"tool": f"t{number}"})
    found = [(tried["number"], tried["tool"]) for tried in await sessions.tries(session)]
    assert found == [(it + 1, f"t{it}") for it in range(MAX_TRIES + 4, 4, -1)]
    await sessions.add_try(session, {"tool": "large", "arguments": "x" * MAX_TRIES_BYTES})
    assert len(await sessions.tries(session)) == MAX_TRIES
    await sessions.end(session)
    assert (await sessions.find(session.cookie), await sessions.tries(session)) == (None, [])


async def test_a_try_that_ends_after_its_session_leaves_nothing_behind(
    sessions: Sessions, store: MemorySignIns
) -> None:
    session = await sessions.begin(TOKEN, OWNER)
    await sessions.end(session)
    await sessions.add_try(session, {"tool": "slow"})
    assert (await sessions.tries(session), store._records) == ([], {})


async def test_one_tenant_can_use_only_a_part_of_all_sessions(sessions: Sessions) -> None:
    async def begin(number: int, tenant_id: str | None) -> Session:
        return await sessions.begin(TOKEN, (("subject", str(number)),), tenant_id=tenant_id)

    others = [await begin(number, tenant_id) for number, tenant_id in ((1, "rival"), (2, None))]
    begun = [await begin(number, "acme") for number in range(10, 12 + MAX_SESSIONS_TENANT)]
    found = [await sessions.find(it.cookie) is not None for it in (*others, *begun)]
    assert found == [True, True, False, False, *[True] * MAX_SESSIONS_TENANT]


async def test_when_sessions_are_exhausted_a_new_one_leaves_no_record(
    sessions: Sessions, store: MemorySignIns
) -> None:
    for number in range(MAX_CONSOLE_SESSIONS):
        await sessions.begin(TOKEN, (("subject", str(number)),))
    with pytest.raises(LoginsUnavailable, match="too many sessions are open"):
        await sessions.begin(TOKEN, OWNER)
    assert len(store._records) == 2 * MAX_CONSOLE_SESSIONS


async def test_simultaneous_tries_are_all_stored(redis_server: RedisServer) -> None:
    pool = open_pool(redis_server.url, max_connections=MAX_CONNECTIONS, variable="state_url")
    sessions = Sessions(RedisSignIns(pool), HeldClock())
    session = await sessions.begin(TOKEN, OWNER)
    await asyncio.gather(*[sessions.add_try(session, {"tool": f"t{it}"}) for it in range(5)])
    tries = await sessions.tries(session)
    assert {it["tool"] for it in tries} == {f"t{it}" for it in range(5)}
    assert [it["number"] for it in tries] == [5, 4, 3, 2, 1]
    await sessions.end(session)
    await pool.connections.disconnect()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_user_is_signed_in_at_every_replica(
    kind: str, databases: Databases, redis_server: RedisServer
) -> None:
    shared: dict[str, Any] = {"state_url": redis_server.url}
    if kind == "postgres":
        shared = {"documents_url": (await databases.new()).url, "documents_timeout": BOUND_S}
    async with (
        running_console(**shared) as console,
        running(console=True, admin_token=ADMIN, **shared) as other,
    ):
        elsewhere = ConsoleBrowser(other.http)
        elsewhere.cookies = console.browser.cookies
        page = await elsewhere.open(SERVERS_PAGE)
        assert "Signed in as" in page.text
        await elsewhere.press("/console/sign-out", on=SERVERS_PAGE)
        response = await console.browser.get(SERVERS_PAGE, follow=False)
        assert response.status_code == 303


async def test_no_page_works_while_the_store_is_unavailable(
    redis_server: RedisServer,
) -> None:
    async with running_console(state_url=redis_server.url) as console:
        assert (await console.browser.get("/console")).status_code == 200
        redis_server.stop()
        try:
            response = await console.browser.get("/console")
            signing_in = await console.browser.post("/console/sign-in", {"token": ADMIN})
        finally:
            redis_server.start()
    assert (response.status_code, signing_in.status_code) == (503, 503)
    assert "cannot be stored now" in Html(response.text).text
    page = Html(signing_in.text)
    assert SIGN_IN in {it.action for it in page.forms}
    assert "/health/ready" in page.text
