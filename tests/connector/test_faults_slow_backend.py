"""A backend that does not read: nothing is lost while it can recover; pending data is bounded."""

from mcp_tools_proxy.mcp.connector.frame_router import MAX_BYTES
from tests.connector.backend_link import LinkedToOne
from tests.connector.link_checks import opened, unharmed, until_status
from tests.connector.raw_frames import PING, TEXT, enveloped, frame, request
from tests.support.remote_backend.session import Session
from tests.support.service import REMOTE, Service

ANSWER_BYTES = 1_000_000
SESSIONS = 24
"""Enough that the answers exceed the limit of the outbox and the socket's buffers."""
ONE_FRAME = ANSWER_BYTES + 1000
KEEPALIVE_S = 2.0
"""A pong may take half of it: a busy machine can pause for longer than 0.2 s."""


async def waiting_bytes(service: Service) -> int:
    return int((await service.get(REMOTE))["waiting_bytes"])


async def until_full(service: Service) -> None:
    await until_status(service, lambda status: status["waiting_bytes"] >= MAX_BYTES)


def log_message(number: int) -> dict[str, object]:
    params = {"level": "error", "data": {"number": number, "more": "x" * 30_000}}
    return {"method": "notifications/message", "params": params}


async def stall(linked: LinkedToOne) -> list[Session]:
    """Fill the outbox with answers, and return the sessions, each waiting for one."""
    service, backend, _ = linked
    sessions = [await opened(backend, f"session {number}") for number in range(SESSIONS)]
    backend.link().stop_reading()
    large = {"name": "s1:big_image", "arguments": {"bytes": ANSWER_BYTES}}
    for session in sessions:
        await session.send(request("tools/call", "large", **large))
    await until_full(service)
    return sessions


async def test_pending_data_for_a_backend_that_does_not_read_is_bounded() -> None:
    async with unharmed("big_image") as linked:
        await stall(linked)
        for _ in range(20):
            assert await waiting_bytes(linked.service) < MAX_BYTES + ONE_FRAME
        linked.backend.link().resume_reading()


async def test_the_gateway_does_not_read_from_a_backend_that_does_not_read() -> None:
    """The backpressure reaches the backend."""
    async with unharmed("big_image", "echo") as linked:
        service, backend, server = linked
        await stall(linked)
        link = backend.link()
        call = {"name": "s1:echo", "arguments": {"text": "x" * 100_000}}
        for number in range(300):
            link.write(frame(TEXT, enveloped(request("tools/call", number, **call), "session 0")))
        for _ in range(20):
            assert await service.code("s1:whoami") == "OK"
        assert (link.unsent_bytes > 0, server.script.calls["echo"]) == (True, 0)
        link.resume_reading()


async def test_all_answers_arrive_when_the_backend_reads_again() -> None:
    async with unharmed("big_image") as linked:
        sessions = await stall(linked)
        linked.backend.link().resume_reading()
        for session in sessions:
            assert (await session.receive())["id"] == "large"
        assert len(linked.backend.links) == 1


async def test_messages_arrive_in_order_when_the_backend_reads_again() -> None:
    """Some notifications are dropped while the backend does not read; results never are."""
    async with unharmed("notify", raw={"sse": True}) as (service, backend, _):
        sessions = [await opened(backend, f"session {number}") for number in range(6)]
        backend.link().stop_reading()
        call = {
            "name": "s1:notify",
            "arguments": {"messages": [*map(log_message, range(30))], "times": 4},
        }
        for session in sessions:
            await session.send(request("tools/call", "notify", **call))
        await until_full(service)
        backend.link().resume_reading()
        for session in sessions:
            numbers = []
            while (message := await session.receive()).get("id") != "notify":
                numbers.append(message["params"]["data"]["number"])
            assert numbers == sorted(numbers)
            assert numbers


async def test_a_backend_that_never_reads_again_loses_the_link() -> None:
    async with unharmed("big_image", remote_keepalive_s=KEEPALIVE_S) as linked:
        sessions = await stall(linked)
        await linked.backend.connected(count=2)
        assert (await sessions[0].result("tools/list"))["tools"]


async def test_a_backend_that_sends_without_reading_loses_the_link() -> None:
    async with unharmed("big_image", remote_keepalive_s=KEEPALIVE_S) as linked:
        sessions = await stall(linked)
        for number in range(3000):
            text = enveloped(request("ping", number), "session 0")
            linked.backend.link().write(frame(TEXT, text))
        await linked.backend.connected(count=2)
        assert (await sessions[1].result("tools/list"))["tools"]


async def test_pending_messages_are_sent_over_the_next_link() -> None:
    """Data that the system had accepted for the lost link is lost."""
    async with unharmed("big_image", remote_keepalive_s=KEEPALIVE_S) as linked:
        sessions = await stall(linked)
        for session in sessions[-8:]:
            assert (await session.receive())["id"] == "large"
        assert len(linked.backend.links) == 2


async def test_pings_of_a_backend_that_reads_nothing_do_not_keep_its_link() -> None:
    async with unharmed("big_image", remote_keepalive_s=KEEPALIVE_S) as linked:
        await stall(linked)
        link = linked.backend.link()
        for _ in range(100):
            link.write(frame(PING, b"x" * 125) * 1000)
        await linked.backend.connected(count=2)
