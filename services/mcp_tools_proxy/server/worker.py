"""One worker process of ``serve --workers``; ``server.supervisor`` starts it."""

import asyncio
import gc
import itertools
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog
import uvicorn

from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.worker_group import HEIR, WorkerGroup
from mcp_tools_proxy.server.acceptor import received
from mcp_tools_proxy.server.uvicorn_server import GracefulServer, build_server_of
from mcp_tools_proxy.server.worker_link import Message, WorkerLink, WorkerPlan, receive_plan
from mcp_tools_proxy.system.system_calls import hide_memory
from mcp_tools_proxy.telemetry.logging import configure_logging, flush_logs, share_output

log = structlog.get_logger()

NOT_STARTED = 3
"""Exit code of a worker that could not start."""


class WorkerServer(GracefulServer):
    """A server that obeys the supervisor. Without it, it stops as after SIGTERM.

    On SIGTERM it retires: it no longer accepts connections, and answers those it has.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        lifecycle: Lifecycle,
        *,
        workers: WorkerGroup,
        end: socket.socket,
        connections: socket.socket,
        address: tuple[str, int],
        grace_s: float,
        **more: Any,
    ) -> None:
        super().__init__(config, lifecycle, grace_s=grace_s, **more)
        self._workers = workers
        self._end = end
        self._link: WorkerLink | None = None
        """None once the supervisor has ended."""
        self._asked: dict[int, asyncio.Future[Sequence[Any]]] = {}
        """The questions without an answer."""
        self._numbers = itertools.count()
        self._connections = connections
        """Where the supervisor passes the connections of clients."""
        self._address = address
        self._taken = 0
        self._opening = 0
        """Connections that were taken, and have no protocol yet."""
        self._will_report = False
        self._tasks: asyncio.TaskGroup
        self._retire_by: float | None = None
        self._said_settled = self._said_idle = self._may_close = False
        self.server_state.connections = _Connections(self._report_soon)
        workers.connect(self._ask, self._keep)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and obey the supervisor meanwhile."""
        link = self._link = await WorkerLink.open(self._end)
        async with asyncio.TaskGroup() as self._tasks:
            obeying = self._tasks.create_task(self._obey(link))
            try:
                await super().serve(sockets)
            finally:
                obeying.cancel()
                link.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell the supervisor, which then passes connections."""
        await super().startup(sockets)
        if self.started and self._link is not None:
            self.announce_start(*self._address)
            asyncio.get_running_loop().add_reader(self._connections, self._take_connections)
            self._link.send(Message.READY)

    def _take_connections(self) -> None:
        for connection in received(self._connections):
            self._taken += 1
            self._opening += 1
            self._tasks.create_task(self._serve_connection(connection))
        self._report_soon()

    async def _serve_connection(self, connection: socket.socket) -> None:
        def protocol() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        except OSError:  # the client has closed it
            connection.close()
        except Exception:  # must not end the worker
            log.exception("worker.connection_failed")
            connection.close()
        finally:
            self._opening -= 1

    def _report_soon(self) -> None:
        """Report taken and closed connections, once per turn of the event loop."""
        if not self._will_report:
            self._will_report = True
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        self._will_report = False
        if self._link is not None:
            open_now = len(self.server_state.connections) + self._opening
            self._link.send(Message.CONNECTIONS, self._taken, open_now)

    async def on_tick(self, counter: int) -> bool:
        """Report that servers were tried; return whether uvicorn should exit."""
        if not self._said_settled and self._link is not None and self._workers.is_settled():
            self._said_settled = True
            self._link.send(Message.SETTLED)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections, and hand down what other workers go on with."""
        self._take_connections()
        await super().shutdown(sockets)
        if self._workers.is_retiring:
            self._workers.leave()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGINT to the supervisor; retire on SIGTERM."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, self._leave)
        try:
            yield
        finally:
            flush_logs()

    def _leave(self) -> None:
        """Have the supervisor stop passing connections, and then retire this worker."""
        if self._link is not None:
            self._link.send(Message.LEAVING)

    def _retire(self) -> None:
        """Take no more connections, and exit when those open are closed and no call runs.

        Idle connections are closed after the grace.
        """
        if self._retire_by is None:
            self._retire_by = time.monotonic() + self.grace_s
            self._workers.is_retiring = True
            self.lifecycle.drain()
            self._take_connections()  # the last ones, which were passed before
            self.announce_closing()

    def is_done(self) -> bool:
        """Return whether it has retired, or, after a stop, whether all workers may close."""
        if self._retire_by is not None and not self.lifecycle.in_flight:
            is_late = time.monotonic() >= self._retire_by
            if is_late or not (self._opening or self.server_state.connections):
                return True
        if not super().is_done():
            return False
        if self._link is not None and not self._said_idle:
            self._said_idle = True
            self._link.send(Message.IDLE)
        return self._may_close or self._link is None

    async def _obey(self, link: WorkerLink) -> None:
        """Handle messages until the supervisor ends, then stop."""
        obey: Mapping[Message, Callable[..., object]] = {
            # in a task: an answer can take longer than a message
            Message.ASK: lambda *asked: self._tasks.create_task(self._reply(link, *asked)),
            Message.HAND_DOWN: lambda *passed: self._tasks.create_task(self._inherit(*passed)),
            Message.REPLY: self._take_answers,
            Message.PING: partial(link.send, Message.PONG),
            Message.LEAD: self._workers.leads.set,
            Message.RETIRE: self._retire,
            Message.STOP: self._stop_now_if_stopping,
            Message.CLOSE: self._let_close,
        }
        while (message := await link.receive()) is not None:
            kind, values = message
            obey[kind](*values)
        self._link = None
        for number in [*self._asked]:
            self._take_answers(number, ())
        log.error("worker.supervisor_ended", worker=self._workers.number)
        if self.stop_by is None:
            self.stop()

    def _stop_now_if_stopping(self) -> None:
        """Stop; the second time, and before the start is complete, without the grace."""
        if self.stop_by is not None or not self.started:
            self.drain_s = 0
            self.should_exit = True
        else:
            self.stop()

    def _let_close(self) -> None:
        self._may_close = True

    async def _ask(self, question: str, value: object, wait_s: float) -> Sequence[Any]:
        if self._link is None:
            return ()
        number = next(self._numbers)
        asked: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        try:
            self._link.send(Message.ASK, number, question, value, wait_s)
            return await asked
        finally:
            self._asked.pop(number, None)

    def _take_answers(self, number: int, answers: Sequence[Any]) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(answers)

    def _keep(self, name: str, value: object) -> None:
        if self._link is not None:
            self._link.send(Message.KEEP, name, value)

    async def _inherit(self, name: str, value: object) -> None:
        try:
            await self._workers.answer(f"{HEIR}{name}", value)
        except Exception:
            log.exception("worker.question_failed", question=name)

    async def _reply(self, link: WorkerLink, number: int, question: str, value: object) -> None:
        """Answer a question; the supervisor counts the replies, so a failure is one without."""
        try:
            answer = await self._workers.answer(question, value)
        except Exception:
            log.exception("worker.question_failed", question=question)
            link.send(Message.REPLY, number)
        else:
            link.send(Message.REPLY, number, answer)


class _Connections(set[Any]):
    """uvicorn's set of connections, which reports a closed one at once.

    Clients that reconnect at the same time would otherwise be distributed by outdated numbers.
    """

    def __init__(self, on_close: Callable[[], None]) -> None:
        super().__init__()
        self._on_close = on_close

    def discard(self, element: Any) -> None:
        """Remove a connection."""
        super().discard(element)
        self._on_close()


def run(connections: socket.socket, end: socket.socket, plan: WorkerPlan) -> int:
    """Serve until the end; return the exit code."""
    configure_logging(plan.settings.log_level, sys.stdout, for_people=plan.greets)
    workers = WorkerGroup(
        plan.number,
        plan.size,
        is_first=plan.is_first,
        console_key=plan.console_key,
        started_at=plan.started_at,
    )
    try:
        server = build_server_of(
            partial(
                WorkerServer,
                workers=workers,
                end=end,
                connections=connections,
                address=plan.address,
            ),
            plan.settings,
            workers,
            greets=plan.greets and plan.is_first,
        )
        server.audit.open()
    except ValueError as error:
        asyncio.run(_fail(end, str(error)))
        return NOT_STARTED
    server.run(sockets=[])
    return 0 if server.started else NOT_STARTED


async def _fail(end: socket.socket, problem: str) -> None:
    link = await WorkerLink.open(end)
    link.send(Message.FAILED, problem)
    await link.receive()


def main() -> None:
    """Run the worker.

    Its arguments are the descriptors of the pipe of connections, of its link, and of the lock of
    the output.
    """
    hide_memory()
    gc.disable()  # imported objects stay; the server enables it again after its start
    connections, end = (socket.socket(fileno=int(it)) for it in sys.argv[1:3])
    connections.setblocking(False)
    share_output(int(sys.argv[3]))
    try:
        plan = receive_plan(end)
    except EOFError:
        sys.exit(NOT_STARTED)
    sys.exit(run(connections, end, plan))


if __name__ == "__main__":
    main()
