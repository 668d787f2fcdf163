"""Approvals that replicas share: each is used once, over crashes and a lost store."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.support.approvals import (
    APPROVE,
    PAGE,
    PAY,
    TOOL,
    Shop,
    approved,
    config_of,
    decide,
    running_shop,
    write_policies,
)
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.console_browser import SIGN_IN, ConsoleBrowser, Html
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.plain_http import NO_TLS
from tests.support.postgres_databases import Databases
from tests.support.program import UNLIMITED, Program, started
from tests.support.redis_server import RedisServer
from tests.support.service import CONFIG_DIR, EXECUTE, eventually
from tests.support.tables import named_row
from tests.support.tokens import TOKENS_FILE, bearer, file_token

KEY = ("the key of approvals that replicas share",)
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["redis", "postgres"])
async def shared(
    request: pytest.FixtureRequest, databases: Databases, shared_server: RedisServer
) -> AsyncIterator[Mapping[str, Any]]:
    if request.param == "postgres":
        made = await databases.new()
        yield {"documents_url": made.url, "state_key": KEY}
        return
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    yield {"state_url": shared_server.url, "state_key": KEY}


@pytest.fixture
async def replicas(shared: Mapping[str, Any]) -> AsyncIterator[list[Shop]]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_raw(extra={"tools": [TOOL]}))
        found = [
            await stack.enter_async_context(running_shop(server=server, **shared)) for _ in range(2)
        ]
        for it in found:
            it.token = found[0].token
            assert it.console.service.gateway.tokens is not None
            await it.console.service.gateway.tokens.load()
        yield found


async def test_of_several_replicas_one_makes_an_approved_call(replicas: list[Shop]) -> None:
    one, other = replicas
    for number in range(1, 11):
        approval_id = await one.asked()
        assert await other.asked() == approval_id
        await decide(await other.person(), approval_id, "approve")
        codes = await asyncio.gather(*(it.code() for it in replicas * 4))
        assert (codes.count("OK"), codes.count("APPROVAL_PENDING")) == (1, 7)
        assert one.made == number
        again = {await it.asked() for it in replicas}
        assert len(again) == 1
        assert approval_id not in again
        await decide(await one.person(), again.pop(), "approve")
        assert await one.code() == "OK"
        one.server.script.calls["pay"] -= 1


async def test_parallel_requests_of_replicas_ask_once(replicas: list[Shop]) -> None:
    ids = set(await asyncio.gather(*(it.asked() for it in replicas * 8)))
    page = await (await replicas[0].person()).open(PAGE)
    listed = {it.rpartition("/")[2] for it in page.links if it.startswith(f"{PAGE}/")}
    assert (len(ids), listed) == (1, ids)


async def test_a_decision_of_two_people_at_once_is_one(replicas: list[Shop]) -> None:
    approval_id = await replicas[0].asked()
    path = f"{PAGE}/{approval_id}"
    people = [await it.person(user) for it, user in zip(replicas, ("boss", "chief"), strict=True)]
    forms = [Html((await it.get(path)).text).form(path).fields for it in people]
    decisions = ("approve", "refuse")
    answers = await asyncio.gather(
        *(
            it.post(path, {**form, "decision": decision})
            for it, form, decision in zip(people, forms, decisions, strict=True)
        )
    )
    assert sorted(it.status_code for it in answers) == [303, 422]
    code = await replicas[1].code()
    assert code == ("OK" if answers[0].status_code == 303 else "POLICY_DENIED")


async def test_without_its_redis_nothing_is_made(shared_server: RedisServer) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    async with running_shop(state_url=shared_server.url, state_key=KEY) as shop:
        approval_id = await approved(shop)
        shared_server.stop()
        try:
            assert await shop.code() == "STATE_UNAVAILABLE"
        finally:
            shared_server.start()
        assert shop.made == 0
        assert await shop.asked() != approval_id


async def test_an_older_copy_of_the_store_does_not_repeat_a_call(
    shared_server: RedisServer,
) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
        async with running_shop(state_url=shared_server.url, state_key=KEY) as shop:
            await approved(shop)
            before: dict[bytes, bytes] = {
                key: client.dump(key) for key in client.scan_iter() if b"approval" in key
            }
            assert await shop.code() == "OK"
            for key, content in before.items():
                client.restore(key, 3_600_000, content, replace=True)
            assert (await shop.code(), shop.made) == ("APPROVAL_PENDING", 1)


def test_a_killed_process_leaves_no_approval_that_is_used_twice(
    shared_server: RedisServer, tmp_path: Path
) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.support.killed_approval", shared_server.url, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        timeout=BOUND_S * 4,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    printed = done.stdout.splitlines()
    lines = [json.loads(line) for line in printed if line.startswith(b'{"was_killed"')]
    assert len(lines) > 10
    assert [it["was_killed"] for it in lines] == [True] * (len(lines) - 1) + [False]
    for step, it in enumerate(lines):
        with named_row(step, it):
            assert it["made"] <= 1
            assert it["again"][1] == "pending"
    assert {it["made"] for it in lines} == {0, 1}
    assert lines[0]["again"] == ["made", "pending"]


async def test_a_call_during_which_the_gateway_is_killed_is_not_made_again(
    shared_server: RedisServer,
) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    async with running_raw(extra={"tools": [TOOL]}) as server:
        config_of(server).write(CONFIG_DIR)
        write_policies(PAY.replace("shop:pay", "shop:hold"))
        ann = file_token(user="ann")
        boss = file_token(user="boss", may=APPROVE, executes=False)
        environment = {
            **UNLIMITED,
            "MCP_PROXY_AUTH_MODE": "token",
            "MCP_PROXY_TOKENS_FILE": str(TOKENS_FILE.absolute()),
            "MCP_PROXY_CONSOLE": "true",
            "MCP_PROXY_STATE_URL": shared_server.url,
            "MCP_PROXY_STATE_KEY": KEY[0],
        }
        with started(Path.cwd(), environment) as program:
            async with gateway_at(program, boss) as (http, browser):
                approval_id = (await held_call(http, ann))["details"]["approval_id"]
                await decide_at(browser, approval_id, program)
                calling = asyncio.ensure_future(held_call(http, ann))

                async def was_sent() -> bool:
                    return server.script.calls["hold"] == 1

                await eventually(was_sent)
                program.stop(signal.SIGKILL)
                with pytest.raises(httpx.TransportError):
                    await calling
        with started(Path.cwd(), environment) as program:
            async with gateway_at(program, boss) as (http, browser):
                again = await held_call(http, ann)
                assert again["code"] == "APPROVAL_PENDING"
                assert "may have been carried out" in again["message"]
                assert again["details"]["earlier_approval_id"] == approval_id
                page = await browser.open(f"{PAGE}/{approval_id}")
                assert "used, outcome unknown" in page.text
                page = await browser.open(f"{PAGE}/{again['details']['approval_id']}")
                assert "This may be the second time" in page.text
                assert f"{PAGE}/{approval_id}" in page.links
        assert server.script.calls["hold"] == 1


@asynccontextmanager
async def gateway_at(
    program: Program, token: str
) -> AsyncIterator[tuple[httpx.AsyncClient, ConsoleBrowser]]:
    """Return a client of a program, and a browser that is signed in."""
    url = f"http://127.0.0.1:{program.port}"
    async with httpx.AsyncClient(base_url=url, timeout=BOUND_S, verify=NO_TLS) as http:
        browser = ConsoleBrowser(http)
        form = Html((await browser.get(SIGN_IN)).text).form(SIGN_IN).fields
        signed_in = await browser.post(SIGN_IN, {**form, "token": token}, origin=url)
        assert signed_in.status_code == 303
        yield http, browser


async def decide_at(browser: ConsoleBrowser, approval_id: str, program: Program) -> None:
    path, origin = f"{PAGE}/{approval_id}", f"http://127.0.0.1:{program.port}"
    form = Html((await browser.get(path)).text).form(path).fields
    done = await browser.post(path, {**form, "decision": "approve"}, origin=origin)
    assert done.status_code == 303


async def held_call(http: httpx.AsyncClient, token: str) -> Json:
    """Return the error of a call, repeated until the gateway knows the server."""
    body = {"tool_name": "shop:hold", "arguments": {}}

    while True:
        response = await http.post(EXECUTE, json=body, headers=bearer(token))
        error: Json = response.json()["error"]
        if not error.get("retryable"):
            return error
