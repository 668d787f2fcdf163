import asyncio
from contextlib import suppress

from tests.connector.backend_link import dialling
from tests.connector.link_checks import opened, unharmed, until_tried
from tests.support.captured_logs import capture_logs
from tests.support.leak_checks import ResourcesInUse
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.session import Session
from tests.support.remote_backend.waits import bounded
from tests.support.service import REMOTE, eventually

ACCIDENTS = (1000, 1001, None, 1011, 1012, 1014)
"""Close codes that do not keep a gateway away, and None for no close frame."""
DROPS = 50
SESSIONS = 8
CALLS = 15
PATIENCE_S = 0.2


async def end(backend: Backend, code: int | None) -> None:
    """Close the link with a code, or drop it."""
    if code is None:
        backend.link().drop()
    else:
        await backend.link().close(code)


async def test_a_backend_that_answers_pings_keeps_the_link() -> None:
    async with unharmed(remote_keepalive_s=2) as (_, backend, _):
        link = backend.link()

        async def pinged() -> bool:
            return link.pings >= 2

        await eventually(pinged)
        assert len(backend.links) == 1


async def test_the_ping_interval_is_unlimited() -> None:
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
        assert (await session.result("tools/list"))["tools"]
        await eventually(before.is_not_exceeded)
        assert (await service.get(REMOTE))["links"] == 1 + DROPS


async def call_again(session: Session, arguments: dict[str, object]) -> object:
    """Retry ``echo`` until it is answered: messages in transit may be lost when a link breaks."""
    async with bounded("an answer"):
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    return (await session.call("s1:echo", arguments))["structuredContent"]


async def test_each_call_gets_its_own_answer_while_every_tenth_frame_breaks_the_link() -> None:
    async with unharmed("echo", remote_retry_max_s=0.05) as (_, backend, _):
        sessions = [await opened(backend, f"session {number}") for number in range(SESSIONS)]
        backend.drop_every = 10

        async def call_all(session: Session) -> None:
            for number in range(CALLS):
                arguments = {"by": session.identifier, "number": number}
                assert await call_again(session, arguments) == arguments

        await asyncio.gather(*map(call_all, sessions))
        backend.drop_every = 0
        assert len(backend.links) >= SESSIONS * CALLS // 10
        assert not backend.strays
        for session in sessions:
            answers = list(session.messages)[1:]
            assert {it["result"]["structuredContent"]["by"] for it in answers} == {
                session.identifier
            }


async def test_a_backend_that_is_down_at_the_start_is_found_in_time() -> None:
    async with running_backend() as backend:
        await backend.shut()
        async with dialling(backend, remote_retry_max_s=0.01) as service:
            status = await until_tried(service, 3)
            assert status["last_error"] == "could not be reached: Connection refused"
            await backend.reopen()
            await backend.connected()
            assert (await backend.session().result("tools/list"))["tools"]


async def test_an_outage_with_one_reason_logs_one_warning() -> None:
    async with running_backend() as backend:
        await backend.shut()
        with capture_logs() as lines:
            async with dialling(backend, remote_retry_max_s=0.01) as service:
                await until_tried(service, 20)
    levels = [line["log_level"] for line in lines if line["event"].startswith("remote")]
    assert [level for level in levels if level != "debug"] == ["warning"]
