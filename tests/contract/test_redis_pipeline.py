import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from mcp_tools_proxy.ratelimit.redis_pipeline import Script, ScriptPipeline
from mcp_tools_proxy.storage.redis_pool import open_pool
from tests.support.bounds import BOUND_S
from tests.support.redis_server import RedisServer
from tests.support.remote_backend.certificates import certify

pytestmark = pytest.mark.requirement("T-10")

ECHO = Script("return ARGV[1]")
FAILS = Script("return redis.call('INCR', KEYS[1])")


@asynccontextmanager
async def pipeline_to(url: str) -> AsyncIterator[ScriptPipeline]:
    pipeline = ScriptPipeline(open_pool(url, max_connections=1).connections)
    try:
        async with asyncio.timeout(BOUND_S):
            yield pipeline
    finally:
        pipeline.disconnect()


def port_of(peer: asyncio.Server) -> int:
    return int(peer.sockets[0].getsockname()[1])


async def echo(pipeline: ScriptPipeline, number: int) -> int:
    return int(await pipeline.run(ECHO, [], [number]))


async def test_replies_match_their_scripts_after_calls_timed_out_on_a_paused_redis(
    server: RedisServer,
) -> None:
    async with pipeline_to(server.url) as pipeline:
        assert await echo(pipeline, 0) == 0
        server.pause()
        given_up = [asyncio.ensure_future(echo(pipeline, -number)) for number in range(1, 20)]
        waiting = [asyncio.ensure_future(echo(pipeline, number)) for number in range(1, 20)]
        await asyncio.sleep(0)
        for task in given_up:
            task.cancel()
        server.resume()
        assert await asyncio.gather(*waiting) == list(range(1, 20))


async def test_a_refused_script_fails_alone(redis: Redis, server: RedisServer) -> None:
    redis.set("text", "no number")
    async with pipeline_to(server.url) as pipeline:
        outcomes = await asyncio.gather(
            echo(pipeline, 1),
            pipeline.run(FAILS, ["text"], []),
            echo(pipeline, 2),
            return_exceptions=True,
        )
    assert (outcomes[0], type(outcomes[1]), outcomes[2]) == (1, ResponseError, 2)


async def test_scripts_lost_by_redis_are_loaded_again(redis: Redis, server: RedisServer) -> None:
    async with pipeline_to(server.url) as pipeline:
        assert await echo(pipeline, 1) == 1
        redis.script_flush()
        assert await asyncio.gather(*(echo(pipeline, n) for n in range(50))) == list(range(50))


async def test_a_connection_closed_by_redis_is_replaced(redis: Redis, server: RedisServer) -> None:
    async with pipeline_to(server.url) as pipeline:
        for number in range(3):
            assert await echo(pipeline, number) == number
            redis.client_kill_filter(_type="normal", skipme=True)
            await asyncio.sleep(0.05)  # until the loop notices it


async def test_scripts_without_a_reply_fail_when_redis_dies(server: RedisServer) -> None:
    async with pipeline_to(server.url) as pipeline:
        assert await echo(pipeline, 0) == 0
        server.pause()
        waiting = [asyncio.ensure_future(echo(pipeline, number)) for number in range(20)]
        await asyncio.sleep(0)
        server.stop()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {RedisConnectionError}


@pytest.mark.parametrize("reply", [b"!?\r\n", b"+OK\r\n+OK\r\n+OK\r\n"], ids=["garbage", "more"])
async def test_an_unexpected_reply_ends_the_connection(reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(65_536):
            writer.write(reply if b"EVALSHA" in head else b"+OK\r\n" * head.count(b"*"))
        writer.close()

    async with (
        await asyncio.start_server(answer, "127.0.0.1", 0) as peer,
        pipeline_to(f"redis://127.0.0.1:{port_of(peer)}") as pipeline,
    ):
        outcomes = [
            await asyncio.gather(echo(pipeline, 1), return_exceptions=True) for _ in range(2)
        ]
    assert all(isinstance(it, RedisError | ValueError) for found in outcomes for it in found)


async def test_scripts_run_over_a_unix_socket(server: RedisServer) -> None:
    async with pipeline_to(server.unix_url) as it:
        assert await asyncio.gather(*(echo(it, n) for n in range(50))) == list(range(50))


async def test_scripts_run_over_tls(server: RedisServer, tmp_path: Path) -> None:
    certified = certify(tmp_path)
    async with (
        await forwarder_to(server.port, certified.tls) as peer,
        pipeline_to(f"rediss://127.0.0.1:{port_of(peer)}?ssl_ca_certs={certified.ca_file}") as it,
    ):
        assert await asyncio.gather(*(echo(it, n) for n in range(50))) == list(range(50))


async def forwarder_to(port: int, tls: ssl.SSLContext) -> asyncio.Server:
    """Accept TLS connections, and forward their bytes to a port and back."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, to_redis), copy(from_redis, writer))

    return await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
