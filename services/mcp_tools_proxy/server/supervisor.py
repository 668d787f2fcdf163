"""Starts, replaces and stops the worker processes of ``serve --workers``.

It imports none of the application: each worker is a new Python process. Connections, and questions
of a worker to the others, pass through here.
"""

import asyncio
import secrets
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from itertools import count
from tempfile import TemporaryFile
from typing import Any

import structlog

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.server.acceptor import Acceptor, ConnectionPipe
from mcp_tools_proxy.server.private_redis import PrivateRedis
from mcp_tools_proxy.server.worker_link import Message, WorkerLink, WorkerPlan
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.logging import flush_logs, share_output

log = structlog.get_logger()

PING_S = 5.0
HUNG_S = 30.0
"""Seconds without a message from a worker until it is killed: any worker answers liveness checks,
so these do not find the one that hangs."""

START_S = 120.0
"""Seconds for the start of a worker."""

SETTLE_S = 60.0
"""Seconds for a new worker to connect to servers before an old one retires: calls of callers that
waited for a slow server would otherwise time out."""

LEFTOVER_S = 5.0
"""Seconds beyond the grace and the drain time until a worker that does not stop is killed."""

STABLE_S = 10.0
"""A worker that ran for so many seconds is replaced at once; others after a growing pause."""

MAX_PAUSE_S = 30.0


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    pipe: ConnectionPipe
    started_at: float
    heard_at: float
    process: Process | None = None
    link: WorkerLink | None = None
    """None until its process was started."""
    is_ready: bool = False
    is_retiring: bool = False
    is_idle: bool = False
    problem: str | None = None
    """Why it could not start, if it said so."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is ready, or has ended."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has tried to connect to each downstream server, or has ended."""
    is_gone: bool = False
    """Whether its link has ended."""
    has_ended: bool = False
    kept: dict[str, Any] = field(default_factory=dict)
    """What another worker goes on with when this one ends, by name."""

    @property
    def takes_connections(self) -> bool:
        return self.is_ready and not self.leaves

    @property
    def leaves(self) -> bool:
        """Whether it retires or has ended, so that it does not count any more."""
        return self.is_retiring or self.is_gone

    def send(self, kind: Message, *values: object) -> None:
        """Send a message; no effect before its process was started, and after its end."""
        if self.link is not None:
            self.link.send(kind, *values)

    def kill(self) -> None:
        """Kill its process, if it runs."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()


@dataclass(slots=True)
class _Question:
    """A question of a worker, and the workers that have not replied."""

    asker: _Worker
    number: int
    question: str
    pending: set[_Worker]
    timer: asyncio.TimerHandle
    answers: list[Any] = field(default_factory=list)


class Supervisor:
    """Runs ``size`` workers on ``listener`` until SIGTERM or SIGINT; SIGHUP replaces each.

    ``redis`` is the one that only these workers use, if there is one.
    """

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        size: int,
        *,
        redis: PrivateRedis | None,
        greets: bool,
        output_lock: int,
    ) -> None:
        self._settings = settings
        self._address = listener.getsockname()[:2]
        self._acceptor = Acceptor(listener, self._pipes)
        self._size = size
        self._redis = redis
        self._greets = greets
        self._started_at = datetime.now(UTC)
        self._console_key = secrets.token_bytes(32)
        self._output_lock = output_lock
        self._workers: list[_Worker] = []
        self._questions: dict[int, _Question] = {}
        self._numbers = count()
        self._leader: _Worker | None = None
        self._to_hand_down: list[tuple[str, Any]] = []
        self._stopping = asyncio.Event()
        self.stopped_by: signal.Signals | None = None
        self._failure: str | None = None
        self._stopped = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self._rolls: asyncio.Lock = asyncio.Lock()

    async def run(self) -> str | None:
        """Run the workers; return why they could not be started, None after a stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_by, number)
        async with asyncio.TaskGroup() as self._tasks:
            loop.add_signal_handler(signal.SIGHUP, self._begin_roll)
            try:
                if self._redis is not None:
                    self._failure = await self._redis.start(self._tasks)
                if self._failure is None:
                    await self._run_workers()
            finally:
                self._stopping.set()
                if self._redis is not None:
                    await self._redis.end()
        return self._failure

    async def _run_workers(self) -> None:
        if self._redis is not None:
            self._tasks.create_task(self._keep(self._redis))
        try:
            first = [await self._start(is_first=not place) for place in range(self._size)]
        except OSError as error:
            self._failure = f"the workers cannot be started: {error.strerror or error}"
            self._stop()
            first = []
        pinging = self._tasks.create_task(self._ping())
        for worker in first:
            await self._wait_started(worker)
        failures = (_failure_of(it) for it in first if not it.is_ready)
        self._failure = self._failure or next(failures, None)
        if self._failure is not None:
            self._stop()
        elif not self._is_stopping:
            host, port = self._address
            log.info("service.workers", workers=self._size, host=host, port=port)
        await self._stopped.wait()
        pinging.cancel()
        await self._end_all()

    async def _keep(self, redis: PrivateRedis) -> None:
        """Start the private Redis again whenever it ends, as workers are replaced."""
        loop, failures = asyncio.get_running_loop(), 0
        reason: str | None = None
        while True:
            started_at = loop.time()
            code = await redis.wait()
            if self._is_stopping:
                return
            log.error("redis.exited", **_ending(code), **({"reason": reason} if reason else {}))
            failures = 0 if loop.time() - started_at >= STABLE_S else failures + 1
            if not await self._pause(failures):
                return
            reason = await redis.restart(self._tasks)
            if reason is None:
                log.info("redis.restarted")

    async def _start(self, *, is_first: bool = False) -> _Worker:
        """Start a worker; it counts, and has its number, from now on. Raises OSError."""
        now = asyncio.get_running_loop().time()
        number = _lowest_free(it.number for it in self._workers)
        worker = _Worker(number, ConnectionPipe(), now, now)
        self._workers.append(worker)
        try:
            await self._spawn(worker, is_first=is_first)
        except OSError:
            self._workers.remove(worker)
            worker.pipe.close()
            raise
        self._tasks.create_task(self._attend(worker))
        if self._is_stopping:
            worker.send(Message.STOP)
        return worker

    async def _spawn(self, worker: _Worker, *, is_first: bool) -> None:
        ours, theirs = socket.socketpair()
        with theirs, worker.pipe.worker_end as connections:
            passed = [connections.fileno(), theirs.fileno(), self._output_lock]
            worker.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # no module of the working folder
                "-m",
                "mcp_tools_proxy.server.worker",
                *map(str, passed),
                pass_fds=passed,
                start_new_session=True,  # Ctrl+C is for the supervisor only
            )
        worker.link = await WorkerLink.open(ours)
        plan = WorkerPlan(
            settings=self._settings,
            number=worker.number,
            size=self._size,
            is_first=is_first,
            greets=self._greets,
            address=self._address,
            started_at=self._started_at,
            console_key=self._console_key,
        )
        worker.send(Message.PLAN, plan)

    async def _wait_started(self, worker: _Worker) -> bool:
        """Return whether a worker is ready; kill one that takes too long."""
        try:
            async with asyncio.timeout(START_S):
                await worker.changed.wait()
        except TimeoutError:
            worker.problem = f"it was not ready within {START_S:g} s"
            worker.kill()
        return worker.is_ready

    async def _attend(self, worker: _Worker) -> None:
        """Handle the messages of a worker until it ends; then start another one if needed."""
        if worker.link is None or worker.process is None:
            return
        while (message := await worker.link.receive()) is not None:
            worker.heard_at = asyncio.get_running_loop().time()
            self._take(worker, *message)
        worker.link.close()  # before the wait: one that failed to start waits for this
        worker.is_gone = True
        worker.settled.set()
        self._acceptor.update()
        self._forget(worker)
        code = await worker.process.wait()
        worker.pipe.close()
        self._workers.remove(worker)
        worker.has_ended = True
        if not (self._is_stopping or worker.is_retiring) and worker.is_ready:
            log.error("worker.exited", worker=worker.number, **_ending(code))
            ran_s = asyncio.get_running_loop().time() - worker.started_at
            self._tasks.create_task(self._fill(failures=0 if ran_s >= STABLE_S else 1))
        worker.changed.set()
        self._check_stopped()

    def _pipes(self) -> list[ConnectionPipe]:
        """Return the pipes of the workers that take connections."""
        return [it.pipe for it in self._workers if it.takes_connections]

    def _take(self, worker: _Worker, kind: Message, values: tuple[Any, ...]) -> None:
        take: Mapping[Message, Callable[..., object]] = {
            Message.READY: self._set_ready,
            Message.SETTLED: lambda worker: worker.settled.set(),
            Message.FAILED: self._set_failed,
            Message.LEAVING: self._let_leave,
            Message.IDLE: self._set_idle,
            Message.ASK: self._ask,
            Message.REPLY: self._answer,
            Message.CONNECTIONS: lambda worker, *counts: worker.pipe.report(*counts),
            Message.KEEP: lambda worker, name, value: worker.kept.update({name: value}),
            Message.PONG: lambda _: None,
        }
        take[kind](worker, *values)

    def _set_ready(self, worker: _Worker) -> None:
        worker.is_ready = True
        self._acceptor.update()
        worker.changed.set()
        if self._leader is None:
            self._lead(worker)
        self._hand_down()

    def _set_failed(self, worker: _Worker, problem: str) -> None:
        worker.problem = problem
        if worker.link is not None:
            worker.link.close()

    def _let_leave(self, worker: _Worker) -> None:
        """Let a worker retire that got SIGTERM; another one takes its place."""
        self._begin_retirement(worker)
        self._tasks.create_task(self._fill())

    def _begin_retirement(self, worker: _Worker) -> None:
        worker.is_retiring = True
        self._acceptor.update()
        worker.send(Message.RETIRE)

    def _set_idle(self, worker: _Worker) -> None:
        worker.is_idle = True
        self._check_stopped()

    def _lead(self, worker: _Worker) -> None:
        self._leader = worker
        worker.send(Message.LEAD)

    def _forget(self, worker: _Worker) -> None:
        for number, asked in [*self._questions.items()]:
            if asked.asker is worker:
                self._questions.pop(number).timer.cancel()
            elif asked.question in worker.kept:  # what it would have answered
                self._answer(worker, number, worker.kept[asked.question])
            else:
                self._answer(worker, number)
        self._to_hand_down += worker.kept.items()
        if self._leader is worker:
            self._leader = None
            others = [it for it in self._workers if it.takes_connections]
            if others:
                self._lead(others[-1])  # the newest, which SIGHUP does not replace next
        self._hand_down()

    def _hand_down(self) -> None:
        """Give the leader what ended workers have kept."""
        if self._leader is not None:
            for name, value in self._to_hand_down:
                self._leader.send(Message.HAND_DOWN, name, value)
            self._to_hand_down.clear()

    def _ask(
        self, asker: _Worker, number: int, question: str, value: object, wait_s: float
    ) -> None:
        others = {it for it in self._workers if it.is_ready and not (it.is_gone or it is asker)}
        own = next(self._numbers)
        timer = asyncio.get_running_loop().call_later(wait_s, self._finish, own)
        self._questions[own] = _Question(asker, number, question, others, timer)
        for other in others:
            other.send(Message.ASK, own, question, value)
        if not others:
            self._finish(own)

    def _answer(self, worker: _Worker, number: int, *answer: Any) -> None:
        asked = self._questions.get(number)
        if asked is not None and worker in asked.pending:
            asked.pending.remove(worker)
            asked.answers += answer
            if not asked.pending:
                self._finish(number)

    def _finish(self, number: int) -> None:
        asked = self._questions.pop(number)
        asked.timer.cancel()
        asked.asker.send(Message.REPLY, asked.number, asked.answers)

    @property
    def _running(self) -> int:
        """The workers that run or start, without those that retire."""
        return sum(not it.leaves for it in self._workers)

    async def _fill(self, failures: int = 0) -> None:
        """Start workers until there are enough, after a failure with growing pauses."""
        while self._running < self._size:
            if not await self._pause(failures) or self._running >= self._size:
                return
            if (worker := await self._start_another()) is not None:
                log.info("worker.replaced", worker=worker.number)
                failures = 0
            else:
                failures += 1

    async def _start_another(self) -> _Worker | None:
        """Start a worker, and wait until it is ready; log why it is not."""
        try:
            worker = await self._start()
        except OSError as error:  # no process, memory or descriptor is free
            reason = error.strerror or str(error)
        else:
            if await self._wait_started(worker):
                return worker
            reason = _failure_of(worker)
        log.error("worker.not_started", reason=reason)
        return None

    async def _pause(self, failures: int) -> bool:
        """Wait before another attempt; return whether it is still needed."""
        if failures:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(0.5 * 2**failures, MAX_PAUSE_S)):
                    await self._stopping.wait()
        return not self._is_stopping

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            slept_at = loop.time()
            await asyncio.sleep(PING_S)
            if loop.time() > slept_at + 2 * PING_S:  # this process was paused, not the workers
                for worker in self._workers:
                    worker.heard_at = loop.time()
            for worker in self._workers:
                worker.send(Message.PING)
                if worker.is_ready and loop.time() - worker.heard_at > HUNG_S:
                    log.error("worker.hangs", worker=worker.number, silent_s=HUNG_S)
                    worker.kill()

    def _begin_roll(self) -> None:
        self._tasks.create_task(self._roll())

    async def _roll(self) -> None:
        """Replace each worker by a new one, which is ready before the old one retires."""
        async with self._rolls:
            log.info("service.replacing_workers", workers=self._size)
            for old in [it for it in self._workers if it.takes_connections]:
                if not await self._start_successor(old):
                    return
                if not old.is_gone:
                    await self._retire(old)
            await self._fill()
            log.info("service.replaced_workers", workers=self._size)

    async def _start_successor(self, old: _Worker) -> bool:
        """Have one worker more than needed, unless the old one ends; return whether that worked.

        Any worker can be killed meanwhile.
        """
        while not (self._running > self._size or old.is_gone):
            if self._is_stopping:
                return False
            new = await self._start_another()
            if new is None:
                log.error("service.replacement_failed", problem="the others are kept")
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await new.settled.wait()
        return not self._is_stopping

    async def _retire(self, worker: _Worker) -> None:
        """Let a worker end, and wait for that within the grace."""
        self._begin_retirement(worker)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.shutdown_grace_s + LEFTOVER_S):
                while not worker.has_ended:
                    worker.changed.clear()
                    await worker.changed.wait()

    @property
    def _is_stopping(self) -> bool:
        return self._stopping.is_set()

    def _stop_by(self, number: signal.Signals) -> None:
        self.stopped_by = number
        self._stop()

    def _stop(self) -> None:
        """Stop all workers; the second time at once."""
        for worker in self._workers:
            worker.send(Message.STOP)
        if not self._is_stopping:
            self._stopping.set()
            limit_s = self._settings.shutdown_grace_s + LEFTOVER_S
            asyncio.get_running_loop().call_later(limit_s, self._stopped.set)
        self._check_stopped()

    def _check_stopped(self) -> None:
        """Let the workers close once no call is in flight in any of them.

        Until then the idle ones answer with SHUTTING_DOWN, as a service of one process does.
        """
        if self._is_stopping and all(it.is_idle for it in self._workers):
            self._stopped.set()

    async def _end_all(self) -> None:
        await self._acceptor.close()
        for worker in self._workers:
            worker.send(Message.CLOSE)
        limit_s = self._settings.shutdown_drain_s + LEFTOVER_S
        processes = [it.process for it in self._workers if it.process is not None]
        waiting = [asyncio.ensure_future(it.wait()) for it in processes]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=limit_s)
            if late:
                for worker in self._workers:
                    worker.kill()


def _lowest_free(numbers: Iterable[int]) -> int:
    taken = set(numbers)
    return next(number for number in count(1) if number not in taken)


def _failure_of(worker: _Worker) -> str:
    code = None if worker.process is None else worker.process.returncode
    ending = ", ".join(f"{key} {value}" for key, value in _ending(code).items())
    return worker.problem or f"a worker ended during its start; see its log ({ending})"


def _ending(code: int | None) -> dict[str, object]:
    """Return how a process ended, as fields of a log line."""
    if code is not None and code < 0:
        with suppress(ValueError):
            return {"signal": signal.Signals(-code).name}
    return {"code": code}


def supervise(
    settings: Settings,
    listener: socket.socket,
    size: int,
    *,
    redis: PrivateRedis | None = None,
    greets: bool = False,
) -> str | None:
    """Run the workers until a signal, which then ends this process as well.

    Returns why the workers could not be started.
    """
    with TemporaryFile() as lock:
        share_output(lock.fileno())
        supervisor = Supervisor(
            settings, listener, size, redis=redis, greets=greets, output_lock=lock.fileno()
        )
        failure = asyncio.run(supervisor.run())
        flush_logs()
        share_output(None)
    if failure is None and supervisor.stopped_by is not None:
        signal.raise_signal(supervisor.stopped_by)
    return failure
