import asyncio
import random

import pytest

from tests.connector.backend_link import linked, linked_to_one, until_running
from tests.support.remote_backend.session import Session

SESSIONS = 50
CALLS = 6
LONGEST_S = 0.2


@pytest.mark.requirement("W-04")
async def test_a_slow_call_of_one_session_delays_no_other() -> None:
    async with linked_to_one("hang", "echo") as (_, backend, server), asyncio.TaskGroup() as tasks:
        slow, other = backend.session(), backend.session()
        calling = tasks.create_task(slow.call("s1:hang"))
        await until_running(server)
        for number in range(10):
            result = await other.call("s1:echo", {"text": str(number)})
            assert result["structuredContent"] == {"text": str(number)}
        assert not slow.messages
        calling.cancel()


@pytest.mark.requirement("W-04", "W-03")
async def test_replies_to_equal_request_ids_reach_their_own_sessions() -> None:
    async with linked_to_one("sleep") as (_, backend, _), asyncio.TaskGroup() as tasks:
        slow, quick = backend.session(), backend.session()
        calls = [
            tasks.create_task(session.call("s1:sleep", {"seconds": seconds}))
            for session, seconds in ((slow, 0.3), (quick, 0))
        ]
        for call, seconds in zip(calls, (0.3, 0), strict=True):
            assert (await call)["structuredContent"] == {"seconds": seconds}
        assert [[it["id"] for it in each.messages] for each in (slow, quick)] == [[1], [1]]
        assert not backend.strays


@pytest.mark.requirement("W-04")
async def test_fifty_sessions_with_random_delays_get_their_own_answers() -> None:
    seed = random.Random(6)  # noqa: S311 - not used for a secret
    async with linked_to_one("sleep") as (_, backend, _):
        sessions = [backend.session() for _ in range(SESSIONS)]

        async def request(session: Session) -> None:
            for number in range(CALLS):
                arguments = {
                    "seconds": seed.uniform(0, LONGEST_S),
                    "by": session.identifier,
                    "n": number,
                }
                assert (await session.call("s1:sleep", arguments))["structuredContent"] == arguments

        await asyncio.gather(*map(request, sessions))
        assert {len(session.messages) for session in sessions} == {CALLS}
        assert not backend.strays


async def test_messages_that_a_session_sends_together_are_handled_in_order() -> None:
    """If one of the levels were applied after the last, the call's lines would arrive."""
    levels = [*(["debug", "critical"] * 20), "emergency"]
    line = {"method": "notifications/message", "params": {"level": "critical", "data": "x"}}
    async with linked_to_one("notify", raw={"sse": True}) as (_, backend, _):
        session = backend.session()
        await session.initialize()
        for number, level in enumerate(levels, start=1000):
            params = {"level": level}
            request = {"jsonrpc": "2.0", "id": number, "method": "logging/setLevel"}
            await session.send(request | {"params": params})
        await session.call("s1:notify", {"messages": [line]})
        assert [it["method"] for it in session.messages if "method" in it] == []


async def test_a_session_can_be_started_and_used_without_waiting_for_answers() -> None:
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}}
    begin |= {"clientInfo": {"name": "x", "version": "1"}}
    async with linked() as (_, backend):
        session = backend.session()
        for message in (
            {"id": 1001, "method": "initialize", "params": begin},
            {"method": "notifications/initialized"},
            {"id": 1002, "method": "tools/list"},
        ):
            await session.send({"jsonrpc": "2.0", **message})
        answers = {it["id"]: it for it in [await session.receive() for _ in range(2)]}
    assert answers[1001]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[1002]["result"]["tools"]
