"""Checks arguments in separate processes that end if a check uses too much CPU.

The event loop cannot interrupt a check, and a thread would block all others.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.errors import InvalidArguments, ServerBusy
from mcp_tools_proxy.gateway.check_worker import CPU_S
from mcp_tools_proxy.system.worker_process import WorkerProcess
from mcp_tools_proxy.wire.json_schema.validator import CostlyCheck

WORKER = (sys.executable, "-I", "-m", "mcp_tools_proxy.gateway.check_worker")

MOST_AT_ONCE = 2
"""Concurrent processes; each tenant uses at most one."""

MOST_WAITING = 16
"""Waiting checks per tenant; each holds its arguments."""

MOST_WAITING_IN_ALL = 64
"""Waiting checks of all tenants, which hold 64 MiB with 1 MiB each. The last quarter is reserved
for tenants without waiting checks, so that four tenants cannot lock out the others.
"""

TIMEOUT_S = 30.0
"""Seconds for one check; the CPU limit is reached earlier unless the machine is busy."""

_RETRY_S = 1.0

IDLE_S = 60.0
"""Seconds until an idle process, which takes 25 MB, ends."""


class CheckProcesses:
    """Runs costly checks for one event loop."""

    def __init__(
        self,
        *,
        worker: Sequence[str] = WORKER,
        timeout_s: float = TIMEOUT_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._worker = worker
        self._timeout_s = timeout_s
        self._idle_s = idle_s
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock exists while a check of its tenant runs or waits."""
        self._waiting: Counter[str] = Counter()
        self._idle: dict[WorkerProcess, asyncio.TimerHandle] = {}

    def __repr__(self) -> str:
        return f"<CheckProcesses: {len(self._idle)} idle, checks of {len(self._turns)} tenants>"

    async def check(self, costly: CostlyCheck, tenant_id: str) -> None:
        """Check arguments; checks of one tenant run one after the other.

        Raises InvalidArguments if they are invalid or the check takes too long, and ServerBusy.
        """
        await asyncio.sleep(0)  # parsing a large request and its estimate took most of this turn
        async with self._place(tenant_id):
            answer = await self._answer(costly)
        if not answer:
            raise _too_costly(costly)
        if (problem := from_json(answer)) is not None:
            raise InvalidArguments(problem["message"], details=problem["details"])

    async def aclose(self) -> None:
        """End the idle processes."""
        while self._idle:
            worker, timer = self._idle.popitem()
            timer.cancel()
            await worker.end()

    @asynccontextmanager
    async def _place(self, tenant_id: str) -> AsyncIterator[None]:
        if self._waiting[tenant_id] >= MOST_WAITING:
            raise _busy("too many calls of this tenant wait for the check of their arguments")
        free = MOST_WAITING_IN_ALL - self._waiting.total()
        if free <= (MOST_WAITING_IN_ALL // 4 if self._waiting[tenant_id] else 0):
            raise _busy("too many calls wait for the check of their arguments")
        self._waiting[tenant_id] += 1
        try:
            async with self._turns.setdefault(tenant_id, asyncio.Lock()), self._places:
                yield
        finally:
            self._waiting[tenant_id] -= 1
            if not self._waiting[tenant_id]:
                del self._waiting[tenant_id]

    async def _answer(self, costly: CostlyCheck) -> bytes:
        """Return a process's response; empty if the time is over, which ends the process."""
        worker = self._take_idle() or await self._start()
        answer = b""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    answer = await _answer_of(worker, costly)
        finally:
            if answer:
                timer = asyncio.get_running_loop().call_later(self._idle_s, self._drop, worker)
                self._idle[worker] = timer
            else:
                await worker.end()
        return answer

    def _take_idle(self) -> WorkerProcess | None:
        while self._idle:
            worker, timer = self._idle.popitem()
            timer.cancel()
            if not worker.has_ended:
                return worker
            worker.kill()
        return None

    def _drop(self, worker: WorkerProcess) -> None:
        del self._idle[worker]
        worker.kill()

    async def _start(self) -> WorkerProcess:
        try:
            return await WorkerProcess.start(self._worker)
        except OSError as error:
            raise _busy("no process can be started for the check of its arguments") from error


async def _answer_of(worker: WorkerProcess, costly: CostlyCheck) -> bytes:
    """Send a check; return the response, empty if the process ended."""
    parts = costly.schema_json, to_json(costly.arguments), to_json(costly.filled_in)
    with suppress(ConnectionError):
        worker.stdin.write(b"%d %d %d\n" % tuple(map(len, parts)) + b"".join(parts))
        await worker.stdin.drain()
        return await worker.stdout.readline()
    return b""


def _too_costly(costly: CostlyCheck) -> InvalidArguments:
    longest = costly.longest_text()
    advice, details = "send less at a time", None
    if longest is not None:
        advice = f"shorten {longest.place}, which has {longest.chars} characters"
        details = {"arguments": [longest.argument]}
    return InvalidArguments(
        f"arguments: take more than {CPU_S:g} s of CPU to be checked against this tool's "
        f"inputSchema; {advice}",
        details=details,
    )


def _busy(why: str) -> ServerBusy:
    return ServerBusy(f"{why}; try again later", retry_after_s=_RETRY_S)
