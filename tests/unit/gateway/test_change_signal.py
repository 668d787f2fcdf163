import asyncio
from contextlib import aclosing

from mcp_tools_proxy.gateway.reloader import ChangeSignal


class Handler:
    """Counts batches; handles each when permitted."""

    def __init__(self) -> None:
        self.signal = ChangeSignal()
        self.batches = 0
        self.may_go_on = asyncio.Event()

    async def run(self) -> None:
        async with aclosing(self.signal.batches()) as batches:
            async for _ in batches:
                self.batches += 1
                await self.may_go_on.wait()


async def turns(number: int = 5) -> None:
    """Run all other tasks until they are blocked."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_report_returns_after_it_was_handled() -> None:
    handler = Handler()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(handler.run())
        report = tasks.create_task(handler.signal.report())
        await turns()
        assert (handler.batches, report.done()) == (1, False)
        handler.may_go_on.set()
        await report
        running.cancel()


async def test_reports_before_the_handler_starts_are_one_batch() -> None:
    handler = Handler()
    handler.may_go_on.set()
    async with asyncio.TaskGroup() as tasks:
        reports = [tasks.create_task(handler.signal.report()) for _ in range(9)]
        await turns()
        running = tasks.create_task(handler.run())
        await asyncio.wait(reports)
        running.cancel()
    assert handler.batches == 1


async def test_a_report_during_a_batch_is_handled_in_the_next() -> None:
    handler = Handler()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(handler.run())
        first = tasks.create_task(handler.signal.report())
        await turns()
        second = tasks.create_task(handler.signal.report())
        await turns()
        handler.may_go_on.set()
        await first
        await second
        running.cancel()
    assert handler.batches == 2


async def test_a_failing_handler_releases_all_waiters() -> None:
    signal = ChangeSignal()

    async def fail() -> None:
        async with aclosing(signal.batches()) as batches:
            async for _ in batches:
                raise RuntimeError("a defect")

    async with asyncio.TaskGroup() as tasks:
        report = tasks.create_task(signal.report())
        outcome = (await asyncio.gather(fail(), return_exceptions=True))[0]
        await report
    assert isinstance(outcome, RuntimeError)
