import asyncio
import json
from typing import Any

import pytest

from tests.downstream.faulty_servers import SERVER_KINDS, FaultyProcess, FaultyWeb, Scene, scene
from tests.support import leak_checks
from tests.support.asgi import Message, post_to_app
from tests.support.mcp_servers.raw_script import CANCELLED
from tests.support.service import EXECUTE, Service, eventually, request_of

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)
LONG: dict[str, Any] = {"requestTimeoutSeconds": 60, "maxCallsInFlight": 150}
ROUNDS, EACH = 2, 100


@every_kind
async def test_a_disconnecting_caller_cancels_the_call_at_the_server(kind: str) -> None:
    async with scene(kind, entry=LONG) as it:
        other = it.start("sleep", seconds=0.5)
        leaves = asyncio.Event()
        call = asyncio.ensure_future(call_until(leaves, it.service, "bad:hang"))
        await it.has_seen("hang")
        leaves.set()
        await it.has_seen(CANCELLED)
        await call
        assert ((await other)["status"], it.bad.seen(CANCELLED)) == ("ok", 1)
        assert it.service.gateway.lifecycle.in_flight == 0


@every_kind
async def test_a_cancelled_request_cancels_the_call_at_the_server(kind: str) -> None:
    async with scene(kind, entry=LONG) as it:
        call = it.start("hang")
        await it.has_seen("hang")
        call.cancel()
        await it.has_seen(CANCELLED)
        await asyncio.wait([call])
        assert (it.service.gateway.lifecycle.in_flight, await it.answers()) == (0, True)


@every_kind
async def test_hundreds_of_disconnecting_callers_leak_nothing(kind: str) -> None:
    async with scene(kind, entry=LONG) as it:
        assert await it.answers()
        held = leak_checks.ResourcesInUse.now()
        for number in range(1, ROUNDS + 1):
            leaves = asyncio.Event()
            calls = [
                asyncio.ensure_future(call_until(leaves, it.service, "bad:hang"))
                for _ in range(EACH)
            ]
            await it.has_seen("hang", number * EACH)
            leaves.set()
            await asyncio.gather(*calls)
            assert it.service.gateway.lifecycle.in_flight == 0
        await it.has_seen(CANCELLED, ROUNDS * EACH)
        await eventually(lambda: _idle(it))
        await eventually(held.is_not_exceeded)  # connections are kept alive for a few seconds
        assert await it.answers()


@every_kind
async def test_a_stopped_service_leaks_nothing(kind: str) -> None:
    held = leak_checks.ResourcesInUse.now()
    async with scene(kind, entry=LONG) as it:
        calls = [it.start("hang") for _ in range(20)]
        await it.has_seen("hang", 20)
    answers = await asyncio.gather(*calls)
    assert {answer["error"]["code"] for answer in answers} <= {
        "SERVER_UNAVAILABLE",
        "SHUTTING_DOWN",
    }
    await eventually(held.is_not_exceeded)


async def test_a_process_that_ignores_termination_requests_is_gone_after_the_stop() -> None:
    async with scene("stdio", stubborn=True) as it:
        assert await it.answers()
        assert isinstance(it.bad, FaultyProcess)
        pid = it.bad.pid
        assert leak_checks.runs(pid)
    assert not leak_checks.runs(pid)


async def call_until(leaves: asyncio.Event, service: Service, tool: str) -> list[Message]:
    """Call a tool as a caller that disconnects when ``leaves`` is set; return its response."""
    messages = [{"type": "http.request", "body": json.dumps(request_of(tool)).encode()}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    return await post_to_app(service, EXECUTE, receive)


async def _idle(it: Scene) -> bool:
    """Return whether no call runs at the server; a stdio process reports this in its answers."""
    return not isinstance(it.bad, FaultyWeb) or it.bad.raw.script.running_count == 0
