"""The supervisor passes connections to workers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from itertools import chain

import pytest

from mcp_tools_proxy.server.acceptor import Acceptor, ConnectionPipe, received
from mcp_tools_proxy.server.listener import listen
from tests.support.bounds import until


class Workers:
    """Two workers that take connections when the test says so."""

    def __init__(self) -> None:
        self.listener = listen("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.pipes = [ConnectionPipe(), ConnectionPipe()]
        self.running = [*self.pipes]
        self.acceptor = Acceptor(self.listener, lambda: self.running)
        self._taken: dict[ConnectionPipe, list[socket.socket]] = {it: [] for it in self.pipes}
        self.clients: list[socket.socket] = []

    def connect(self, count: int) -> None:
        """Open connections; the system accepts them at once."""
        self.clients += [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]

    def take(self, pipe: ConnectionPipe) -> int:
        """Take the connections that have arrived, and report them; return their number."""
        taken = self._taken[pipe]
        taken += received(pipe.worker_end)
        pipe.report(len(taken), len(taken))
        return len(taken)

    def counts(self) -> list[int]:
        return [self.take(pipe) for pipe in self.pipes]

    def close(self) -> None:
        with ExitStack() as stack:
            for pipe in self.pipes:
                stack.callback(pipe.close)
                stack.enter_context(pipe.worker_end)
            for opened in chain(self.clients, *self._taken.values()):
                stack.enter_context(opened)


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    found = Workers()
    found.acceptor.update()
    yield found
    await found.acceptor.close()
    found.close()


async def test_each_worker_gets_as_many_connections(workers: Workers) -> None:
    workers.connect(64)
    await until(lambda: sum(workers.counts()) == 64)
    assert workers.counts() == [32, 32]


async def test_the_worker_with_the_fewest_gets_new_connections(workers: Workers) -> None:
    first, second = workers.pipes
    workers.running = [second]
    workers.connect(10)
    await until(lambda: sum(workers.counts()) == 10)
    workers.running = [first, second]
    workers.connect(10)
    await until(lambda: sum(workers.counts()) == 20)
    assert workers.counts() == [10, 10]


async def test_a_worker_that_takes_nothing_gets_no_more(workers: Workers) -> None:
    hanging, other = workers.pipes
    workers.connect(1)
    await until(lambda: hanging.connections + other.connections == 1)
    await until(lambda: hanging.is_late)
    workers.connect(20)
    await until(lambda: workers.take(other) == 20)
    assert workers.take(hanging) == 1


async def test_connections_wait_until_there_is_a_worker(workers: Workers) -> None:
    workers.running = []
    workers.acceptor.update()
    workers.connect(5)
    await asyncio.sleep(0)
    assert workers.counts() == [0, 0]
    workers.running = workers.pipes
    workers.acceptor.update()
    await until(lambda: sum(workers.counts()) == 5)


async def test_established_connections_are_passed_on_before_the_end(workers: Workers) -> None:
    workers.connect(30)
    await workers.acceptor.close()
    assert workers.counts() == [15, 15]
