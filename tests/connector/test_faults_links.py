"""Links that break, in whatever way: the next one is up in time, and sessions go on over it."""

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from tests.connector.backend_link import dialling
from tests.connector.faults import (
    PING,
    close_frame,
    frame,
    opened,
    pauses,
    recovered,
    unharmed,
    until_state,
    until_tried,
)
from tests.support.leak_checks import ResourcesInUse
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.session import Session
from tests.support.remote_backend.waits import bounded
from tests.support.service import REMOTE, eventually

ACCIDENTS = (1000, 1001, 1006, 1011, 1012, 1014)
"""Close codes that no backend sends to keep a gateway away; with 1006 it sends none."""
DROPS = 50
SESSIONS = 8
CALLS = 15
PATIENCE_S = 0.2


async def end(backend: Backend, code: int) -> None:
    """Close the link with a code, or drop it."""
    if code == 1006:
        backend.link().drop()
    else:
        await backend.link().close(code)


@pytest.mark.parametrize("code", ACCIDENTS)
async def test_a_link_that_broke_is_back_in_time(code: int) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        await end(backend, code)
        await recovered(backend)
        assert (await session.result("tools/list"))["tools"]


@pytest.mark.parametrize("code", [1008, 1013, 3000, 4409])
async def test_a_backend_that_sends_the_gateway_away_is_left_alone_for_a_moment(code: int) -> None:
    async with unharmed() as (service, backend, _):
        with capture_logs() as lines:
            await backend.link().close(code)
            status = await until_state(service, "offline")
        assert pauses(lines)[0] >= 0.5
        assert str(code) in status["last_error"]


async def test_a_close_frame_without_a_code_ends_the_link_as_any_other() -> None:
    async with unharmed() as (_, backend, _):
        backend.link().write(frame(8))
        await recovered(backend)


async def test_a_backend_that_pings_and_is_gone_was_lost_like_any_other() -> None:
    async with unharmed() as (_, backend, _):
        with capture_logs() as lines:
            link = backend.link()
            link.write(frame(PING) * 3)
            link.drop()
            await recovered(backend)
        (line,) = [line for line in lines if line["event"] == "remote.offline"]
        assert (line["reason"], line["log_level"]) == ("the connection broke", "warning")


async def test_why_a_backend_went_is_known_though_its_ping_has_no_answer() -> None:
    async with unharmed() as (_, backend, _):
        with capture_logs() as lines:
            link = backend.link()
            link.write(frame(PING) + close_frame(4409))
            link.hang_up()
            await recovered(backend)
        (line,) = [line for line in lines if line["event"] == "remote.offline"]
        assert "4409" in line["reason"]


async def test_a_backend_that_vanished_without_a_word_is_noticed_and_dialled_again() -> None:
    async with unharmed(remote_keepalive_s=0.4) as (service, backend, _):
        session = await opened(backend)
        backend.link().half_open()
        with capture_logs() as lines:
            await backend.connected(count=2)
        assert [line["reason"] for line in lines if line["event"] == "remote.offline"] == [
            "the backend answered no ping"
        ]
        assert (await session.result("tools/list"))["tools"]
        assert (await service.get(REMOTE))["links"] == 2


async def test_a_backend_that_answers_pings_keeps_the_link() -> None:
    async with unharmed(remote_keepalive_s=0.1) as (_, backend, _):
        link = backend.link()

        async def pinged() -> bool:
            return link.pings >= 5

        await eventually(pinged)
        assert len(backend.links) == 1


async def test_pings_may_be_as_rare_as_anyone_likes() -> None:
    async with unharmed(remote_keepalive_s=1e9) as (_, backend, _):
        assert (await backend.session().result("tools/list"))["tools"]


async def test_fifty_drops_leave_no_socket_and_no_task() -> None:
    async with unharmed(remote_retry_max_s=0.01) as (service, backend, _):
        session = await opened(backend)
        await service.result("s1:whoami")
        before = ResourcesInUse.now()
        for number in range(DROPS):
            await end(backend, ACCIDENTS[number % len(ACCIDENTS)])
            await backend.connected(count=2 + number)
        await session.result("tools/list")
        await eventually(before.is_all)
        assert (await service.get(REMOTE))["links"] == 1 + DROPS


async def insist(session: Session, said: dict[str, object]) -> object:
    """Call ``echo`` until it is answered: what is on its way when a link breaks may be lost."""
    async with bounded("an answer"):
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    return (await session.call("s1:echo", said))["structuredContent"]


async def test_while_every_tenth_frame_breaks_the_link_each_call_gets_its_answer() -> None:
    async with unharmed("echo", remote_retry_max_s=0.05) as (_, backend, _):
        sessions = [await opened(backend, f"session {number}") for number in range(SESSIONS)]
        backend.drop_every = 10

        async def ask_all(session: Session) -> None:
            for number in range(CALLS):
                said = {"by": session.identifier, "number": number}
                assert await insist(session, said) == said

        await asyncio.gather(*map(ask_all, sessions))
        backend.drop_every = 0
        assert len(backend.links) >= SESSIONS * CALLS // 10
        assert not backend.strays
        for session in sessions:
            answers = list(session.messages)[1:]
            assert {it["result"]["structuredContent"]["by"] for it in answers} == {
                session.identifier
            }


async def test_a_link_that_breaks_again_and_again_is_back_in_time_each_time() -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        for number in range(5):
            backend.link().drop()
            await recovered(backend, 2 + number)
        assert (await session.result("tools/list"))["tools"]


async def test_a_backend_that_was_down_for_long_is_found_in_time() -> None:
    async with unharmed() as (service, backend, _):
        session = await opened(backend)
        await backend.shut()
        await until_tried(service, 5)
        await backend.reopen()
        await recovered(backend)
        assert (await session.result("tools/list"))["tools"]


async def test_a_backend_that_is_down_at_the_start_is_found_in_time() -> None:
    async with running_backend() as backend:
        await backend.shut()
        async with dialling(backend) as service:
            await until_tried(service, 3)
            status = await service.get(REMOTE)
            assert status["last_error"] == "could not be reached: Connection refused"
            await backend.reopen()
            await recovered(backend, 1)
            assert (await backend.session().result("tools/list"))["tools"]


async def test_one_reason_is_one_warning_however_long_it_lasts() -> None:
    async with running_backend() as backend:
        await backend.shut()
        with capture_logs() as lines:
            async with dialling(backend, remote_retry_max_s=0.01) as service:
                await until_tried(service, 20)
    told = [line for line in lines if line["event"].startswith("remote")]
    assert [line["log_level"] for line in told if line["log_level"] != "debug"] == ["warning"]
