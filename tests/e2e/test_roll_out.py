"""Two replicas over one Redis are replaced one after the other under load."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.roll_out.callers import REFUSED, Callers, Work
from tests.support.bounds import BOUND_S, until
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.program import UNLIMITED, Program, started
from tests.support.redis_server import running_redis

CALLERS = 30
PER_STEP = 100
"""Calls that have to complete between two steps, so that each happens under load."""

WORK = (
    Work("s1:echo", {"text": "hello"}, "hello"),
    Work("s1:sleep", {"seconds": 0.2}, "slept"),
    Work("read_doc_pages", {"doc_id": "doc_1", "page_start": 1, "page_end": 2}, "LDAP"),
)


class Replicas:
    """Starts gateways in separate folders."""

    def __init__(self, folder: Path, settings: dict[str, str], stack: AsyncExitStack) -> None:
        self._folder = folder
        self._settings = settings
        self._stack = stack
        self._started = 0

    async def start(self) -> Program:
        """Start one and wait until it serves its server's tools."""
        self._started += 1
        folder = self._folder / f"replica-{self._started}"
        folder.mkdir()
        entering = self._stack.enter_context
        program = await asyncio.to_thread(entering, started(folder, self._settings))
        await asyncio.to_thread(program.wait_for_server)
        program.http.close()  # otherwise its connection would delay the test
        return program


@asynccontextmanager
async def two_replicas(folder: Path) -> AsyncIterator[tuple[Replicas, list[Program]]]:
    async with running_raw() as server, AsyncExitStack() as stack:
        redis = stack.enter_context(running_redis(folder))
        replicas = Replicas(folder, settings_of(server, redis.url, folder), stack)
        yield replicas, [await replicas.start(), await replicas.start()]


@pytest.mark.slow
@pytest.mark.e2e
async def test_every_request_has_its_result_or_was_not_accepted(tmp_path: Path) -> None:
    callers = Callers(WORK, "tenant_1")
    async with two_replicas(tmp_path) as (replicas, running):
        callers.replicas = [url_of(it) for it in running]
        async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
            group.create_task(callers.run(CALLERS))
            for old in running:
                new = await replicas.start()
                callers.replicas.append(url_of(new))
                await under_load(callers)
                assert await asyncio.to_thread(old.stop) == -15
                await one_refused(callers)
                callers.replicas.remove(url_of(old))
                await under_load(callers)
            callers.stop()
    assert callers.unexpected == {}


async def under_load(callers: Callers) -> None:
    done = callers.calls
    await until(lambda: callers.calls >= done + PER_STEP)


async def one_refused(callers: Callers) -> None:
    refused = callers.ends[REFUSED]
    await until(lambda: callers.ends[REFUSED] > refused)


def url_of(program: Program) -> str:
    return f"http://127.0.0.1:{program.port}"


def settings_of(server: RawServer, redis_url: str, folder: Path) -> dict[str, str]:
    preset = make_preset(tools=[("s1", "echo"), ("s1", "sleep")])
    Config(servers={"s1": server.entry}, presets=[preset]).write(folder / "config")
    return {
        **UNLIMITED,
        "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": "1000000",  # Redis counts each call
        "MCP_PROXY_CONFIG_DIR": str(folder / "config"),
        "MCP_PROXY_RATE_LIMIT_STORAGE_URL": redis_url,
        "MCP_PROXY_SHUTDOWN_DRAIN_S": str(BOUND_S),
        "MCP_PROXY_LOG_LEVEL": "error",
    }
