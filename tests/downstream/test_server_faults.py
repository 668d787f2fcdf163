import asyncio

import pytest

from tests.downstream.faulty_servers import (
    QUICKLY_LEFT,
    SERVER_KINDS,
    SHORT,
    FaultyWeb,
    Scene,
    scene,
)
from tests.support.service import eventually

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)


@every_kind
@pytest.mark.requirement("F-24", "P-07")
async def test_a_server_that_is_dead_at_the_start_delays_nothing(kind: str) -> None:
    async with scene(kind, alive=False) as it:
        assert (await it.call("echo", "good"), await it.call("echo")) == (
            "OK",
            "SERVER_UNAVAILABLE",
        )
        assert ("bad:echo" in await it.missing(), "good:echo" in await it.missing()) == (
            True,
            False,
        )


@every_kind
@pytest.mark.requirement("P-07")
async def test_tools_of_a_server_that_starts_later_appear_automatically(kind: str) -> None:
    async with scene(kind, alive=False) as it:
        await it.bad.start()
        await it.recovered()
        assert ("bad:echo" in await it.service.listed(), await it.missing()) == (True, set())


@every_kind
@pytest.mark.requirement("P-15")
async def test_a_server_that_dies_during_a_call_fails_only_that_call(kind: str) -> None:
    async with scene(kind) as it:
        elsewhere = asyncio.ensure_future(it.call("sleep", "good", seconds=0.3))
        lost = it.start("hang")
        await it.has_seen("hang")
        await it.bad.kill()
        error = (await lost)["error"]
        assert (error["code"], "server bad" in error["message"]) == ("SERVER_UNAVAILABLE", True)
        assert await elsewhere == "OK"


@every_kind
async def test_a_server_that_died_during_a_call_recovers_automatically(kind: str) -> None:
    async with scene(kind) as it:
        lost = it.start("hang")
        await it.has_seen("hang")
        await it.bad.kill()
        await lost
        await eventually(lambda: _is_down(it))
        assert "bad:echo" in await it.service.listed(), "it is stale, not gone"
        await it.bad.start()
        await it.recovered()
        assert (await it.status())["state"] == "ready"


@every_kind
async def test_a_server_killed_between_calls_costs_one_call_at_most(kind: str) -> None:
    async with scene(kind) as it:
        for _ in range(3):
            assert await it.answers()
            await it.bad.restart()
            codes = [await it.call("echo") for _ in range(10)]
            assert sorted(set(codes)) in (["OK"], ["OK", "SERVER_UNAVAILABLE"])
            assert codes.count("OK") >= 9


@every_kind
async def test_a_server_killed_among_many_callers_costs_each_one_call_at_most(kind: str) -> None:
    async with scene(kind) as it:
        ends = asyncio.Event()

        async def keep_calling() -> list[str]:
            codes: list[str] = []
            while not ends.is_set() or len(codes) < 10:
                codes.append(await it.call("echo"))
            return codes

        callers = [asyncio.ensure_future(keep_calling()) for _ in range(8)]
        await it.has_seen("echo", 20)
        await it.bad.restart()
        await eventually(lambda: _has_reconnected(it))
        ends.set()
        for caller in callers:
            codes = await caller
            assert len(codes) - codes.count("OK") <= 1, codes


@pytest.mark.parametrize("kind", ["http-legacy", "sse"])
async def test_a_server_that_loses_its_sessions_costs_one_call_at_most(kind: str) -> None:
    async with scene(kind) as it:
        assert await it.answers()
        assert isinstance(it.bad, FaultyWeb)
        it.bad.raw.lose_sessions()
        codes = [await it.call("echo") for _ in range(10)]
        assert codes.count("OK") >= 9, codes


@pytest.mark.parametrize("kind", [kind for kind in SERVER_KINDS if kind != "stdio"])
async def test_broken_connections_cost_one_call_at_most(kind: str) -> None:
    async with scene(kind) as it:
        assert await it.answers()
        assert isinstance(it.bad, FaultyWeb)
        it.bad.raw.drop_connections()
        codes = [await it.call("echo") for _ in range(10)]
        assert codes.count("OK") >= 9, codes


@every_kind
async def test_another_server_answers_while_one_hangs(kind: str) -> None:
    async with scene(kind) as it:
        await it.bad.freeze()
        hanging = it.start("echo")
        assert await it.call("echo", "good") == "OK"
        assert not hanging.done(), "the good server does not wait for it"
        hanging.cancel()


@every_kind
async def test_a_call_to_a_hanging_server_times_out(kind: str) -> None:
    async with scene(kind, entry=SHORT) as it:
        await it.recovered()
        await it.bad.freeze()
        assert await it.call("echo") == "TOOL_TIMEOUT"
        await it.bad.thaw()
        await it.recovered()


@every_kind
async def test_a_permanently_hanging_server_is_disconnected_and_dialled_again(kind: str) -> None:
    async with scene(kind, entry=QUICKLY_LEFT) as it:
        await it.recovered()  # a busy machine may need more than one attempt to connect
        await it.bad.freeze()
        assert await it.call("echo") == "TOOL_TIMEOUT"
        await eventually(lambda: _was_disconnected(it))
        if kind != "stdio":  # over stdio the hanging process is ended and another one started
            await it.bad.thaw()
        await it.recovered()


async def _is_down(it: Scene) -> bool:
    status = await it.status()
    return (status["state"], status["stale"]) == ("reconnecting", True)


async def _was_disconnected(it: Scene) -> bool:
    status = await it.status()
    return bool(status["state"] == "reconnecting" or status["reconnects"] > 0)


async def _has_reconnected(it: Scene) -> bool:
    return await it.answers() and await it.answers()
