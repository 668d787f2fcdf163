import asyncio
import time

import pytest

from mcp_tools_proxy.storage.redis_timeout import idle_clock, io_timeout


def work_for(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


async def test_waiting_longer_than_allowed_times_out() -> None:
    with pytest.raises(TimeoutError):
        async with io_timeout(0.01):
            await asyncio.Event().wait()


async def test_without_remaining_time_the_first_wait_times_out() -> None:
    with pytest.raises(TimeoutError):
        async with io_timeout(-1):
            await asyncio.Event().wait()


async def test_work_on_the_same_thread_does_not_count_as_waiting() -> None:
    async with io_timeout(0.05):
        work_for(0.1)
        await asyncio.sleep(0)  # the alarm goes off here


def test_the_idle_clock_never_goes_back() -> None:
    readings = [idle_clock() for _ in range(1000)]
    assert readings[0] - readings[-1] < 0.001


def test_the_idle_clock_stands_still_while_the_thread_works() -> None:
    before, started = time.monotonic(), idle_clock()
    work_for(0.05)
    stopped, after = idle_clock(), time.monotonic()
    assert stopped - started <= after - before - 0.05
