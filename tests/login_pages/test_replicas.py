"""Sign-ins and logins shared by replicas, over Redis and over PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import httpx
import pytest

from tests.login_pages.page_gateway import PUBLIC_URL, PageGateway, code, page_gateway, sent_token
from tests.support.bounds import BOUND_S, until
from tests.support.browser import Browser, next_address
from tests.support.configuration import Json
from tests.support.postgres_databases import Databases
from tests.support.redis_server import RedisServer, running_redis
from tests.support.sign_in_stores import advance_postgres, advance_redis

TEN_MINUTES_S = 600


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared state of replicas, and a way to advance the age of pending sign-ins."""

    settings: Json
    advance: Callable[[float], Awaitable[None]]


@pytest.fixture(params=["redis", "postgres"])
async def shared(
    request: pytest.FixtureRequest, databases: Databases, redis_server: RedisServer
) -> Shared:
    """Sign-ins in Redis and logins in a folder, or both in PostgreSQL."""
    if request.param == "redis":
        url = redis_server.url
        return Shared({"state_url": url}, partial(advance_redis, url))
    made = await databases.new()
    return Shared(
        {"documents_url": made.url, "documents_timeout": BOUND_S},
        partial(advance_postgres, made.owner_url),
    )


@asynccontextmanager
async def two_replicas(shared: Shared) -> AsyncIterator[tuple[PageGateway, PageGateway]]:
    async with page_gateway(**shared.settings) as first, first.replica() as second:
        yield first, second


class AlternatingBrowser(Browser):
    """A browser that alternates between the replicas with each request."""

    def __init__(self, *replicas: PageGateway) -> None:
        super().__init__(PUBLIC_URL, replicas[0].served.url)
        self.visited: list[str] = []
        self._urls = [it.served.url for it in replicas]

    async def send(
        self, method: str, url: str, data: dict[str, str] | None = None
    ) -> httpx.Response:
        if url.startswith(f"{PUBLIC_URL}/"):
            self._urls.reverse()
            self.url = self._urls[0]
            self.visited.append(self.url)
        return await super().send(method, url, data)


async def test_a_sign_in_continues_at_any_replica(shared: Shared) -> None:
    async with two_replicas(shared) as (first, second):
        refused = await first.call()
        url = refused["error"]["details"]["url"]
        assert "replicas" not in refused["error"]["details"]
        assert await second.address() == url
        browser = AlternatingBrowser(first, second)
        closing = await first.sign_in(browser, url)
        assert "<h1>Connected" in closing.text
        assert [it == first.served.url for it in browser.visited] == [
            False,
            True,
            False,
            True,
            False,
        ]
        tokens = {sent_token(await it.call()) for it in (first, second)}
        assert len(tokens) == 1
        assert [code(await it.call(sub="bob")) for it in (first, second)] == ["LOGIN_REQUIRED"] * 2


async def test_a_state_is_valid_once_over_all_replicas_for_any_browser(shared: Shared) -> None:
    async with two_replicas(shared) as (first, second):
        ann = first.browser()
        going = await ann.press(await ann.open(await first.address()))
        cookies = dict(ann.cookies)
        back = (await Browser("", "").send("GET", next_address(going))).headers["location"]
        ends = []
        for replica in (first, second):
            for _ in range(2):
                again = Browser(PUBLIC_URL, replica.served.url, cookies=dict(cookies))
                ends.append(again.send("GET", back))
        statuses = sorted(it.status_code for it in await asyncio.gather(*ends))
        assert statuses == [303, 403, 403, 403]
        assert len([it for it in first.issuer.token_requests if "code" in it]) == 1
        bob = first.browser()
        first.sign_in_as(sub="bob")
        sent = await bob.open(await first.address(sub="bob"), stop_at=first.own.url)
        back = (await Browser("", "").send("GET", sent.headers["location"])).headers["location"]
        assert (await second.browser().open(back)).status_code == 403
        assert (await bob.open(back)).status_code == 403


async def test_replicas_that_renew_a_login_simultaneously_send_its_refresh_token_once(
    shared: Shared,
) -> None:
    async with two_replicas(shared) as (first, second):
        first.issuer.expires_in = 1  # is renewed by the first call
        await first.sign_in(first.browser(), await first.address())
        first.issuer.expires_in = 3600
        first.issuer.pause.clear()
        async with asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(it.call()) for it in (first, second) for _ in range(3)]
            await until(lambda: refreshes(first) > 0, "a replica renews the login")
            first.issuer.pause.set()
        assert len({sent_token(it.result()) for it in calls}) == 1
        assert refreshes(first) == 1


def refreshes(gateway: PageGateway) -> int:
    requests = gateway.issuer.token_requests
    return len([it for it in requests if it["grant_type"] == "refresh_token"])


async def test_address_page_and_states_expire_after_ten_minutes(shared: Shared) -> None:
    async with page_gateway(**shared.settings) as gateway:
        url, ann = await gateway.address(), gateway.browser()
        own = await ann.open(url, stop_at=gateway.own.url)
        await shared.advance(TEN_MINUTES_S / 2)
        assert await gateway.address() == url
        await shared.advance(TEN_MINUTES_S / 2)
        ended = await ann.open(url)
        assert (ended.status_code, "has expired" in ended.text) == (404, True)
        assert (await ann.open(own.headers["location"])).status_code == 403
        assert gateway.own.token_requests == []
        assert await gateway.address() != url
        page = await ann.open(await gateway.address())
        await shared.advance(TEN_MINUTES_S)
        pressed = await ann.press(page)
        assert (pressed.status_code, "has expired" in pressed.text) == (404, True)
        going = await ann.press(await ann.open(await gateway.address()))
        await shared.advance(TEN_MINUTES_S)
        assert (await ann.open(next_address(going))).status_code == 403
        assert [it for it in gateway.issuer.token_requests if "code" in it] == []
