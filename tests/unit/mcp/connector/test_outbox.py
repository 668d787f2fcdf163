import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mcp_tools_proxy.mcp.connector.frame_router import MAX_TRIES, Outbox
from mcp_tools_proxy.mcp.connector.websocket_link import FaultKind, LinkFault
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.waits import bounded
from tests.support.tables import each_row


class Wire:
    """Accepts a limited number of frames; the next one waits."""

    def __init__(self, lets: int | None = None) -> None:
        self.sent: list[bytes] = []
        self.begun: list[bytes] = []
        self.waits = asyncio.Event()
        self._lets = asyncio.Semaphore(10_000 if lets is None else lets)

    def let(self, count: int = 1) -> None:
        for _ in range(count):
            self._lets.release()

    async def send(self, frame: bytes) -> None:
        self.begun.append(frame)
        if self._lets.locked():
            self.waits.set()
        async with bounded("the wire takes a frame"):
            await self._lets.acquire()
        self.sent.append(frame)


@asynccontextmanager
async def draining(outbox: Outbox, wire: Wire) -> AsyncIterator[None]:
    """Run the outbox on a connection, which may break while a frame is being sent."""
    async with asyncio.TaskGroup() as tasks:
        draining = tasks.create_task(outbox.drain(wire.send))
        try:
            yield
        finally:
            draining.cancel()


async def break_on_the_first(outbox: Outbox) -> None:
    """Open a connection that accepts nothing, and close it."""
    wire = Wire(lets=0)
    async with draining(outbox, wire), bounded("a frame is begun"):
        await wire.waits.wait()


async def emptied(outbox: Outbox) -> None:
    async with bounded("all is sent"):
        await outbox.empty()


async def test_frames_are_sent_in_the_order_of_arrival() -> None:
    outbox, wire = Outbox(), Wire()
    frames = [b"%d" % number for number in range(100)]
    async with draining(outbox, wire):
        for frame in frames:
            await outbox.put(frame)
        await emptied(outbox)
    assert wire.sent == frames


async def test_waiting_frames_are_counted_in_bytes() -> None:
    outbox = Outbox()
    for frame in (b"x" * 3, b"", b"x" * 4):
        await outbox.put(frame)
    assert outbox.waiting_bytes == 7


async def test_a_sender_waits_while_the_outbox_is_full() -> None:
    outbox, wire = Outbox(max_bytes=10), Wire()
    await outbox.put(b"x" * 9)
    await outbox.put(b"x" * 9)
    async with asyncio.TaskGroup() as tasks:
        putting = tasks.create_task(outbox.put(b"more"))
        assert not await outbox.wait_for_capacity(within_s=0.01)
        assert (putting.done(), outbox.waiting_bytes) == (False, 18)
        async with draining(outbox, wire):
            await putting
            await emptied(outbox)
    assert wire.sent[-1] == b"more"


async def test_waiting_senders_do_not_exceed_the_bound() -> None:
    """At most the bound and one frame wait, regardless of the number of senders."""
    outbox, wire, most = Outbox(max_bytes=10), Wire(lets=0), 0
    async with asyncio.TaskGroup() as tasks, draining(outbox, wire):
        putting = [tasks.create_task(outbox.put(b"%04d" % number)) for number in range(50)]
        while wire.sent != [b"%04d" % number for number in range(50)]:
            most = max(most, outbox.waiting_bytes)
            wire.let()
            await asyncio.sleep(0)
        assert all(task.done() for task in putting)
    assert 10 <= most < 14


async def test_thousands_of_waiting_senders_are_admitted_in_order() -> None:
    """If each frame woke all of them, the test would time out."""
    outbox, wire = Outbox(max_bytes=1), Wire()
    frames = [b"%04d" % number for number in range(5000)]
    async with asyncio.TaskGroup() as tasks:
        leaving = [tasks.create_task(outbox.put(frame)) for frame in frames]
        await asyncio.sleep(0)
        async with draining(outbox, wire), bounded("all of them got in"):
            await asyncio.gather(*leaving)
            await outbox.empty()
    assert wire.sent == frames


async def test_a_cancelled_sender_does_not_block_others() -> None:
    outbox, wire = Outbox(max_bytes=1), Wire()
    await outbox.put(b"first")
    async with asyncio.TaskGroup() as tasks:
        leaving = [tasks.create_task(outbox.put(b"gone")) for _ in range(3)]
        staying = tasks.create_task(outbox.put(b"last"))
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        async with draining(outbox, wire):
            await staying
            await emptied(outbox)
    assert wire.sent == [b"first", b"last"]


async def test_a_frame_larger_than_the_bound_is_sent() -> None:
    outbox, wire = Outbox(max_bytes=10), Wire()
    async with draining(outbox, wire):
        await outbox.put(b"x" * 1000)
        await emptied(outbox)
    assert wire.sent == [b"x" * 1000]


async def test_a_frame_interrupted_by_a_lost_connection_is_sent_on_the_next_one() -> None:
    outbox, wire = Outbox(), Wire()
    await outbox.put(b"first")
    await outbox.put(b"second")
    await break_on_the_first(outbox)
    async with draining(outbox, wire):
        await emptied(outbox)
    assert wire.sent == [b"first", b"second"]


async def test_a_sender_is_not_blocked_when_the_connection_breaks() -> None:
    outbox, broken, wire = Outbox(), Wire(lets=0), Wire()
    async with asyncio.TaskGroup() as tasks:
        async with draining(outbox, broken):
            await asyncio.sleep(0)
            leaving = tasks.create_task(outbox.put(b"first"))
            async with bounded("a frame is begun"):
                await broken.waits.wait()
        async with draining(outbox, wire):
            await outbox.put(b"second")
            await emptied(outbox)
            await leaving
    assert wire.sent == [b"first", b"second"]


async def test_a_frame_is_sent_even_if_its_sender_is_cancelled() -> None:
    outbox, wire = Outbox(), Wire(lets=0)
    async with asyncio.TaskGroup() as tasks, draining(outbox, wire):
        await asyncio.sleep(0)
        leaving = tasks.create_task(outbox.put(b"first"))
        async with bounded("a frame is begun"):
            await wire.waits.wait()
        leaving.cancel()
        wire.let(5)
        await emptied(outbox)
        await outbox.put(b"second")
        await emptied(outbox)
    assert wire.sent == [b"first", b"second"]


async def test_frames_added_during_a_send_follow_in_order() -> None:
    outbox, wire = Outbox(), Wire(lets=0)
    frames = [b"%d" % number for number in range(20)]
    async with asyncio.TaskGroup() as tasks, draining(outbox, wire):
        await asyncio.sleep(0)
        for frame in frames:
            tasks.create_task(outbox.put(frame))
            await asyncio.sleep(0)
        wire.let(len(frames))
        await emptied(outbox)
    assert wire.sent == frames


async def test_a_frame_that_breaks_every_connection_is_dropped() -> None:
    outbox, wire = Outbox(), Wire()
    await outbox.put(b"poison")
    await outbox.put(b"after")
    for _ in range(MAX_TRIES):
        await break_on_the_first(outbox)
    with capture_logs() as lines:
        async with draining(outbox, wire):
            await emptied(outbox)
    assert (wire.sent, outbox.waiting_bytes) == ([b"after"], 0)
    assert [line["event"] for line in lines] == ["remote.frame_given_up"]


async def test_a_broken_connection_counts_as_one_attempt_per_frame() -> None:
    outbox, wire = Outbox(), Wire()

    async def have_a_broken_link() -> None:
        async def send(_: bytes) -> None:
            raise LinkFault(FaultKind.LOST, "the connection broke")

        with suppress(LinkFault):
            await outbox.drain(send)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(have_a_broken_link())
        await asyncio.sleep(0)
        await outbox.put(b"first")  # starts it, then the connection does
    for _ in range(MAX_TRIES - 2):
        await have_a_broken_link()
    async with draining(outbox, wire):
        await emptied(outbox)
    assert wire.sent == [b"first"]


@each_row("is_cleared", [True, False])
async def test_attempts_are_counted_per_frame(is_cleared: bool) -> None:
    outbox, wire = Outbox(), Wire()
    await outbox.put(b"first")
    for _ in range(MAX_TRIES - 1):
        await break_on_the_first(outbox)
    if is_cleared:
        outbox.clear()
    else:
        async with draining(outbox, Wire()):
            await emptied(outbox)
    await outbox.put(b"second")
    for _ in range(MAX_TRIES - 1):
        await break_on_the_first(outbox)
    async with draining(outbox, wire):
        await emptied(outbox)
    assert wire.sent == [b"second"]


async def test_discarded_frames_are_never_sent() -> None:
    outbox, wire = Outbox(max_bytes=5), Wire()
    await outbox.put(b"forgotten")
    outbox.clear()
    async with draining(outbox, wire):
        await outbox.put(b"kept")
        await emptied(outbox)
    assert (wire.sent, outbox.waiting_bytes) == ([b"kept"], 0)


async def test_frames_added_after_a_discard_are_sent_despite_an_interrupted_send() -> None:
    outbox, wire = Outbox(), Wire(lets=0)
    await outbox.put(b"on its way")
    await outbox.put(b"forgotten")
    async with draining(outbox, wire):
        await wire.waits.wait()
        outbox.clear()
        await outbox.put(b"kept")
        wire.let(2)
        await emptied(outbox)
    assert (wire.sent, outbox.waiting_bytes) == ([b"on its way", b"kept"], 0)


async def test_discarding_all_frames_admits_waiting_senders() -> None:
    outbox = Outbox(max_bytes=1)
    await outbox.put(b"x")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(outbox.wait_for_capacity())
        await asyncio.sleep(0)
        outbox.clear()
        assert await waiting
