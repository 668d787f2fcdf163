"""Sessions outlive a short drop with all they have; after a long one nothing of them is left."""

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from mcp_tools_proxy.connector.outbox import MAX_BYTES
from mcp_tools_proxy.mcp_server.message_session import MessageSession
from tests.connector.backend_link import LinkedToOne, linked
from tests.connector.faults import opened, recovered, request, unharmed, until_state
from tests.support.configuration import Config, make_preset
from tests.support.leak_checks import tasks
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.remote_backend.handshakes import Manner, Refusal
from tests.support.remote_backend.session import ENVELOPE, LEGACY, MODERN, Session
from tests.support.service import REMOTE, Service, eventually

GRACE_S = 0.3
MANY = 500
QUESTION = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
eras = pytest.mark.parametrize("era", [LEGACY, MODERN])


async def begun(linked: LinkedToOne, era: str) -> Session:
    if era == LEGACY:
        return await opened(linked.backend)
    return linked.backend.session()


async def no_sessions(service: Service) -> bool:
    return (await service.get(REMOTE)).get("sessions") == 0


@eras
async def test_a_call_in_flight_is_answered_over_the_next_link(era: str) -> None:
    async with unharmed("sleep") as linked, asyncio.TaskGroup() as tasks:
        session = await begun(linked, era)
        calling = tasks.create_task(session.call("s1:sleep", {"seconds": 0.3}))

        async def runs() -> bool:
            return linked.server.script.running_count == 1

        await eventually(runs)
        linked.backend.link().drop()
        assert (await calling)["structuredContent"] == {"seconds": 0.3}
        assert (len(linked.backend.links), linked.server.script.calls["sleep"]) == (2, 1)


async def test_an_answer_that_is_ready_while_there_is_no_link_goes_over_the_next() -> None:
    async with unharmed("sleep") as linked, asyncio.TaskGroup() as tasks:
        service, backend, server = linked
        session = await opened(backend)
        calling = tasks.create_task(session.call("s1:sleep", {"seconds": 0.05}))

        async def runs() -> bool:
            return server.script.running_count == 1

        await eventually(runs)
        backend.manner = Refusal(503)
        backend.link().drop()

        async def waits() -> bool:
            return bool((await service.get(REMOTE))["waiting_bytes"])

        await eventually(waits)
        backend.manner = Manner.WELCOME
        assert (await calling)["structuredContent"] == {"seconds": 0.05}


async def test_a_session_of_the_older_eras_needs_no_other_handshake() -> None:
    async with unharmed("meta") as (_, backend, server):
        session = await opened(backend)
        for links in (2, 3):
            backend.link().drop()
            await recovered(backend, links)
            await session.call("s1:meta")
        assert server.script.calls["meta"] == 2


async def test_a_question_that_is_open_when_the_link_breaks_is_answered_over_the_next() -> None:
    async with (
        unharmed("ask", raw={"era": "legacy", "sse": True}) as (_, backend, _),
        asyncio.TaskGroup() as tasks,
    ):
        session = backend.session()
        await session.initialize(elicitation={})
        calling = tasks.create_task(session.call("s1:ask", QUESTION))
        asked = await session.receive()
        backend.link().drop()
        await recovered(backend)
        await session.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
        answers = (await calling)["structuredContent"]["answers"]
        assert answers == [{"result": {"action": "decline"}}]


@eras
async def test_a_call_of_a_session_that_is_lost_for_good_is_cancelled(era: str) -> None:
    async with unharmed("hang", remote_drop_grace_s=GRACE_S) as linked:
        service, backend, server = linked
        session = await begun(linked, era)
        await session.send(hanging(era))

        async def runs() -> bool:
            return server.script.running_count == 1

        async def is_cancelled() -> bool:
            return server.script.cancelled_count == 1

        await eventually(runs)
        await backend.shut()
        await eventually(is_cancelled)
        await eventually(lambda: no_sessions(service))
        await backend.reopen()


def hanging(era: str) -> dict[str, object]:
    meta = {"_meta": ENVELOPE} if era == MODERN else {}
    return request("tools/call", "hang", name="s1:hang", arguments={}, **meta)


async def test_a_session_that_is_lost_for_good_has_to_be_begun_anew() -> None:
    async with unharmed(remote_drop_grace_s=GRACE_S) as (service, backend, _):
        session = await opened(backend)
        with capture_logs() as lines:
            await backend.shut()
            await eventually(lambda: no_sessions(service))
        await backend.reopen()
        await backend.connected(count=2)
        assert "error" in await session.request("tools/list")
        ended = [line for line in lines if line["event"] == "remote.sessions_ended"]
        assert [line["sessions"] for line in ended] == [1]


async def test_what_was_said_for_sessions_that_are_lost_is_never_sent() -> None:
    """Not what waits, and not what is said by who waited for room."""
    async with unharmed("big_image", remote_drop_grace_s=GRACE_S) as (service, backend, _):
        sessions = [await opened(backend, f"session {number}") for number in range(24)]
        backend.link().stop_reading()
        large = {"name": "s1:big_image", "arguments": {"bytes": 1_000_000}}
        for session in sessions:
            await session.send(request("tools/call", "large", **large))

        async def is_full() -> bool:
            return bool((await service.get(REMOTE))["waiting_bytes"] >= MAX_BYTES)

        await eventually(is_full)
        backend.manner = Refusal(503)
        backend.link().drop()
        await eventually(lambda: no_sessions(service))
        backend.manner = Manner.WELCOME
        await backend.connected(count=2)
        heard = len(backend.frames)
        assert (await backend.session().result("tools/list"))["tools"]
        assert (len(backend.frames) - heard, (await service.get(REMOTE))["sessions"]) == (1, 1)


async def test_without_any_grace_sessions_end_with_their_link() -> None:
    async with unharmed(remote_drop_grace_s=0) as (service, backend, _):
        session = await opened(backend)
        backend.link().drop()
        await until_state(service, "offline")
        await recovered(backend)
        assert "error" in await session.request("tools/list")


async def test_five_hundred_sessions_at_once_get_each_their_own_answers_and_leave_nothing() -> None:
    async with running_raw() as server:
        entry = {**server.entry, "maxCallsInFlight": MANY, "maxCallsInFlightPerTenant": MANY}
        config = Config(servers={"s1": entry}, presets=[make_preset(tools=[("s1", "sleep")])])
        async with linked(config=config, remote_drop_grace_s=0) as (service, backend):
            before = tasks()
            sessions = [backend.session(era=LEGACY) for _ in range(MANY)]
            results = await asyncio.gather(*map(use, sessions))
            assert results == [session.identifier for session in sessions]
            assert {len(session.messages) for session in sessions} == {2}
            assert not backend.strays
            backend.link().drop()
            await eventually(lambda: no_sessions(service))
            await recovered(backend)
            await eventually(lambda: no_more(before))


async def use(session: Session) -> object:
    """Begin a session, and call in it."""
    await session.initialize()
    result = await session.call("s1:sleep", {"seconds": 0.1, "by": session.identifier})
    return result["structuredContent"]["by"]


async def no_more(before: int) -> bool:
    """Tell whether no task and no conversation is left of the sessions."""
    gc.collect()
    left = sum(isinstance(it, MessageSession) for it in gc.get_objects())
    return tasks() <= before and left == 0
