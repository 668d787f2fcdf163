"""Runs that several replicas share, in Redis and in PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.postgres_databases import Databases
from tests.support.redis_server import running_redis
from tests.support.service import CONFIG_DIR, Service, running

KEY = "k" * 32
TOOL: Json = {
    "name": "refund",
    "description": "Refunds.",
    "inputSchema": {
        "type": "object",
        "properties": {"cents": {"type": "integer"}},
        "required": ["cents"],
    },
}
POLICY = """
@id("total") forbid(principal, action == Action::"s1:refund", resource) when {
  context has run && context.run.total["s1:refund#cents"] + context.args.cents > 1000
};
@id("no-send") forbid(principal, action == Action::"s1:echo", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted")
};
"""
LABELS = {
    "s1:refund": {"labels": ["writes"]},
    "s1:meta": {"labels": ["reads_untrusted"]},
    "s1:echo": {"labels": ["sends"]},
}


@pytest.fixture(params=["redis", "postgres"])
async def store(
    request: pytest.FixtureRequest, databases: Databases, tmp_path: Path
) -> AsyncIterator[str]:
    if request.param == "postgres":
        yield (await databases.new()).url
        return
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis") as server:
        yield server.url


@asynccontextmanager
async def replicas(store: str) -> AsyncIterator[tuple[Service, Service]]:
    (CONFIG_DIR / "policies").mkdir(parents=True)
    (CONFIG_DIR / "policies" / "a.cedar").write_text(POLICY)
    write_json(CONFIG_DIR / "labels.json", {"tools": LABELS})
    preset = make_preset(tools=[("s1", it) for it in ("refund", "meta", "echo")])
    settings: dict[str, Any] = {"runs_url": store, "state_key": KEY, "documents_timeout": BOUND_S}
    async with running_raw(extra={"tools": [TOOL]}) as server:
        config = Config(servers={"s1": server.entry}, presets=[preset])
        async with (
            running(config=config, **settings) as one,
            running(config=config, **settings) as two,
        ):
            yield one, two


async def test_a_total_is_exact_over_replicas(store: str) -> None:
    async with replicas(store) as both:
        run = {"id": uuid4().hex}
        calls = (both[it % 2].code("s1:refund", {"cents": 300}, run=run) for it in range(20))
        codes = await asyncio.gather(*calls)
        assert (codes.count("OK"), codes.count("POLICY_DENIED")) == (3, 17)


async def test_each_replica_knows_what_a_run_has_read(store: str) -> None:
    async with replicas(store) as (one, two):
        run = {"id": uuid4().hex}
        assert await two.code("s1:echo", run=run) == "OK"
        assert await one.code("s1:meta", run=run) == "OK"
        assert await two.code("s1:echo", run=run) == "POLICY_DENIED"
        assert await two.code("s1:echo", run={"id": uuid4().hex}) == "OK"


async def test_without_its_store_no_call_of_a_run_is_made(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis") as server:
        async with replicas(server.url) as (one, _):
            run = {"id": uuid4().hex}
            assert await one.code("s1:echo", run=run) == "OK"
            server.stop()
            try:
                assert await one.code("s1:echo", run=run) == "STATE_UNAVAILABLE"
                assert await one.code("s1:echo") == "RUN_REQUIRED"
            finally:
                server.start()
