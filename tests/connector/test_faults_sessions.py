"""Sessions survive a short outage with their state; a long outage ends them completely."""

import asyncio
import gc

import pytest

from mcp_tools_proxy.mcp.connector.frame_router import MAX_BYTES
from mcp_tools_proxy.mcp.server.message_session import MessageSession
from tests.connector.backend_link import LinkedToOne, linked, until_running
from tests.connector.link_checks import opened, unharmed, until_no_sessions, until_status
from tests.connector.raw_frames import request
from tests.support.configuration import Config, make_preset
from tests.support.leak_checks import tasks
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.remote_backend.handshakes import Manner, Refusal
from tests.support.remote_backend.session import ENVELOPE, LEGACY, MODERN, Session
from tests.support.service import REMOTE, eventually

GRACE_S = 0.3
MANY = 500
ELICITATION = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
eras = pytest.mark.parametrize("era", [LEGACY, MODERN])


async def begun(linked: LinkedToOne, era: str) -> Session:
    if era == LEGACY:
        return await opened(linked.backend)
    return linked.backend.session()


@eras
async def test_a_call_in_flight_is_answered_over_the_next_link(era: str) -> None:
    async with unharmed("sleep") as linked, asyncio.TaskGroup() as tasks:
        session = await begun(linked, era)
        calling = tasks.create_task(session.call("s1:sleep", {"seconds": 0.3}))
        await until_running(linked.server)
        linked.backend.link().drop()
        assert (await calling)["structuredContent"] == {"seconds": 0.3}
        assert (len(linked.backend.links), linked.server.script.calls["sleep"]) == (2, 1)


async def test_an_answer_ready_during_an_outage_is_sent_over_the_next_link() -> None:
    async with unharmed("sleep") as linked, asyncio.TaskGroup() as tasks:
        service, backend, server = linked
        session = await opened(backend)
        calling = tasks.create_task(session.call("s1:sleep", {"seconds": 0.05}))
        await until_running(server)
        backend.manner = Refusal(503)
        backend.link().drop()
        await until_status(service, lambda status: bool(status["waiting_bytes"]))
        backend.manner = Manner.WELCOME
        assert (await calling)["structuredContent"] == {"seconds": 0.05}


async def test_a_session_of_the_older_eras_needs_no_second_handshake() -> None:
    async with unharmed("meta") as (_, backend, server):
        session = await opened(backend)
        for links in (2, 3):
            backend.link().drop()
            await backend.connected(count=links)
            await session.call("s1:meta")
        assert server.script.calls["meta"] == 2


async def test_a_request_open_when_the_link_breaks_is_answered_over_the_next() -> None:
    async with (
        unharmed("request_client", raw={"era": "legacy", "sse": True}) as (_, backend, _),
        asyncio.TaskGroup() as tasks,
    ):
        session = backend.session()
        await session.initialize(elicitation={})
        calling = tasks.create_task(session.call("s1:request_client", ELICITATION))
        received = await session.receive()
        backend.link().drop()
        await backend.connected(count=2)
        await session.send(
            {"jsonrpc": "2.0", "id": received["id"], "result": {"action": "decline"}}
        )
        answers = (await calling)["structuredContent"]["answers"]
        assert answers == [{"result": {"action": "decline"}}]


@eras
async def test_a_call_of_a_lost_session_is_cancelled(era: str) -> None:
    async with unharmed("hang", remote_drop_grace_s=GRACE_S) as linked:
        service, backend, server = linked
        session = await begun(linked, era)
        await session.send(hanging(era))

        async def is_cancelled() -> bool:
            return server.script.cancelled_count == 1

        await until_running(server)
        await backend.shut()
        await eventually(is_cancelled)
        await until_no_sessions(service)
        await backend.reopen()


def hanging(era: str) -> dict[str, object]:
    meta = {"_meta": ENVELOPE} if era == MODERN else {}
    return request("tools/call", "hang", name="s1:hang", arguments={}, **meta)


async def test_pending_messages_of_lost_sessions_are_never_sent() -> None:
    """Covers queued messages and messages of a session that waited for the outbox."""
    async with unharmed("big_image", remote_drop_grace_s=GRACE_S) as (service, backend, _):
        sessions = [await opened(backend, f"session {number}") for number in range(24)]
        backend.link().stop_reading()
        large = {"name": "s1:big_image", "arguments": {"bytes": 1_000_000}}
        for session in sessions:
            await session.send(request("tools/call", "large", **large))
        await until_status(service, lambda status: status["waiting_bytes"] >= MAX_BYTES)
        backend.manner = Refusal(503)
        backend.link().drop()
        await until_no_sessions(service)
        backend.manner = Manner.WELCOME
        await backend.connected(count=2)
        sent = len(backend.frames)
        assert (await backend.session().result("tools/list"))["tools"]
        assert (len(backend.frames) - sent, (await service.get(REMOTE))["sessions"]) == (1, 1)


async def test_five_hundred_concurrent_sessions_get_their_own_answers_and_leak_nothing() -> None:
    """The server is called over stdio: five hundred connections use a thousand descriptors."""
    entry = {**raw_entry(), "maxCallsInFlight": MANY, "maxCallsInFlightPerTenant": MANY}
    config = Config(servers={"s1": entry}, presets=[make_preset(tools=[("s1", "sleep")])])
    async with linked(config=config, remote_drop_grace_s=0) as (service, backend):
        before = tasks()
        sessions = [backend.session(era=LEGACY) for _ in range(MANY)]
        results = await asyncio.gather(*map(use, sessions))
        assert results == [session.identifier for session in sessions]
        assert {len(session.messages) for session in sessions} == {2}
        assert not backend.strays
        backend.link().drop()
        await until_no_sessions(service)
        await backend.connected(count=2)
        await eventually(lambda: no_more(before))


async def use(session: Session) -> object:
    await session.initialize()
    result = await session.call("s1:sleep", {"seconds": 0.1, "by": session.identifier})
    return result["structuredContent"]["by"]


async def no_more(before: int) -> bool:
    """Return whether all tasks and sessions ended."""
    gc.collect()
    left = sum(isinstance(it, MessageSession) for it in gc.get_objects())
    return tasks() <= before and left == 0
