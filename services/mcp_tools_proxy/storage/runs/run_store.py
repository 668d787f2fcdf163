"""The interface of the stores of runs, and a store in the memory of one process."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import NamedTuple, NoReturn, TypeVar, cast

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import RateLimitExceeded, RunExpired, StateUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.runs.run_memory import RunMemory
from mcp_tools_proxy.policy.tenant_share import has_share

K = TypeVar("K")
T = TypeVar("T")
Change = Callable[[RunMemory], T]
"""Changes a memory and returns a result; called again with a newer memory if another replica
changed the run at the same time."""

OPENINGS_S = 3600.0
"""Seconds in which a user's new runs are counted."""


class RunKey(NamedTuple):
    """The key of a run: its tenant, and SHA-256 digests of its owner and of the whole.

    The owner is a user, or a token that proves no user, with the user that the request names.
    """

    tenant_id: str
    owner: bytes
    digest: bytes


def run_key(caller: Caller, run_id: str) -> RunKey:
    """Return the key of a caller's run.

    The agent is not a part of it, so a hand-over to another agent keeps the run's memory. Operators
    who act for a user have separate runs, and so have tokens that name a user without proof.
    Approvals belong to the same owners.
    """
    if caller.stand_in is not None:
        owner = ("operator", caller.user_id, *caller.token_log_fields.values())
    elif caller.user_is_unproved:
        owner = ("unproved user", caller.user_id, *caller.token_log_fields.values())
    elif caller.user_id:
        owner = ("user", caller.user_id)
    else:
        owner = ("token", *caller.token_log_fields.values())
    return RunKey(
        caller.tenant_id, _digest(caller.tenant_id, owner), _digest(caller.tenant_id, owner, run_id)
    )


def _digest(*parts: object) -> bytes:
    return sha256(ascii(parts).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of stored runs.

    A run ends after ``idle_s`` without a call; its mark stays for another ``mark_s``. ``runs``
    limits a tenant's runs and marks together, ``new_runs`` those that a user begins in an hour.
    """

    idle_s: float = 3600.0
    mark_s: float = 7 * 86_400.0
    runs: int = 100_000
    new_runs: int = 500


class _Seen(Exception):
    """Ends an update that only reads, with the result."""


class RunStore(ABC):
    """Keeps the memory of each run, and a mark when it has ended.

    Marks are never dropped early: without its mark, the id of an ended run would begin a run that
    has read nothing.
    """

    @abstractmethod
    async def update(self, key: RunKey, change: Change[T], *, may_begin: bool = True) -> T:
        """Change the memory of a run atomically, and return the result of ``change``.

        An unknown run begins, if it ``may_begin``. Nothing is kept if ``change`` raises: to keep a
        declaration, return a refusal. Raises RunExpired for a run that ended, RateLimitExceeded or
        StateUnavailable for a new one without space, and StateUnavailable while the store is down.
        """

    async def peek(self, key: RunKey, read: Change[T]) -> T:
        """Return what ``read`` returns of a run's memory, without a change. Raises like update."""

        def stop(memory: RunMemory) -> NoReturn:
            raise _Seen(read(memory.copy()))

        try:
            await self.update(key, stop)
        except _Seen as seen:
            return cast("T", seen.args[0])

    @abstractmethod
    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""

    async def connect(self) -> None:  # noqa: B027 - not needed in memory
        """Connect before the first call if this is quick."""

    async def run(self) -> None:
        """Run background work until cancelled."""
        await asyncio.Event().wait()

    async def close(self) -> None:  # noqa: B027 - as above
        """Close connections."""


AWAY = "this request did nothing: its run cannot be read right now; try again later"


def ended_run() -> RunExpired:
    """Build the error for an id whose run has ended."""
    return RunExpired("this run has ended; start another one, with an id that was never used")


def too_many_new_runs(wait_s: float) -> RateLimitExceeded:
    """Build the error for a user who began too many runs."""
    return RateLimitExceeded(
        "this user began too many runs in the last hour; continue one of them, or try again later",
        retry_after_s=max(0.0, round(wait_s, 1)),
    )


def no_space() -> StateUnavailable:
    """Build the error for a run of a tenant whose share of the store is used."""
    return StateUnavailable(
        "this request did nothing: the store has no space for more runs of this tenant; try again "
        "later",
        reason="no space for runs",
    )


class UnusableRunStore(RunStore):
    """Refuses all runs; ``problem`` is the operator's next step.

    With ``is_wanted`` a setting requires a store, so readiness is degraded.
    """

    def __init__(self, problem: str, *, is_wanted: bool) -> None:
        self._problem = problem
        self._is_wanted = is_wanted

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        status = "degraded" if self._is_wanted else "ok"
        return {"status": status, "store": "none", "problem": self._problem}

    async def update(self, key: RunKey, change: Change[T], *, may_begin: bool = True) -> NoReturn:
        """Raise StateUnavailable."""
        error = StateUnavailable(
            "this request did nothing: the gateway is not set up for runs; tell its operator",
            reason=self._problem,
        )
        error.retryable = False
        raise error


MARK_BYTES = 500
"""Memory of a mark: its key, and its place in tables (measured: 360)."""

RUN_BYTES = 2_000
"""Memory of an open run besides its content (measured: 1,270 with one call)."""

SMALL_PART = 512
"""The part of all bytes, 128 KiB by default, that a user may use if its tenant may."""

DROP_S = 10.0
"""Seconds between two removals of ended runs."""


@dataclass(slots=True)
class _OpenRun:
    memory: RunMemory
    ends_at: float
    size: int


class MemoryRunStore(RunStore):
    """Keeps runs of this process in memory, with ``max_bytes`` shared fairly among tenants.

    Within a tenant, a user may use as much as is left for the others: the runs of one user in an
    hour took all. ``clock`` returns seconds.
    """

    def __init__(
        self, limits: RunLimits, *, max_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.used_bytes = 0
        self._limits = limits
        self._max_bytes = max_bytes
        self._clock = clock
        self._runs: dict[RunKey, _OpenRun] = {}
        """Open runs, the longest unused first."""
        self._marks: dict[RunKey, float] = {}
        """Ended runs and the end of their mark, earliest first."""
        self._bytes_of: Counter[str] = Counter()
        self._bytes_of_owner: Counter[bytes] = Counter()
        self._runs_of: Counter[str] = Counter()
        self._begun: dict[bytes, deque[float]] = {}
        """Times of an owner's new runs, the latest owner last."""

    def __repr__(self) -> str:
        return f"<MemoryRunStore {len(self._runs)} runs, {len(self._marks)} marks>"

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        return {"status": "ok", "store": "memory", "kept": len(self._runs)}

    async def run(self) -> None:
        """End idle runs and remove old marks until cancelled."""
        while True:
            await asyncio.sleep(DROP_S)
            self.drop_ended()

    async def update(self, key: RunKey, change: Change[T], *, may_begin: bool = True) -> T:
        """Change the memory of a run; see RunStore."""
        self.drop_ended()
        run = self._runs.get(key)
        if run is None:
            if key in self._marks or not may_begin:
                raise ended_run()
            self._check_new(key)
        memory = RunMemory() if run is None else run.memory.copy()
        result = change(memory)
        size = RUN_BYTES + memory.size
        growth = size - (0 if run is None else run.size)
        if may_begin and growth > 0 and not self._fits(key, growth):
            raise no_space()
        if run is None:
            self._count(key, 1, 0)
            begun = self._begun.pop(key.owner, None) or deque()
            begun.append(self._clock())
            self._begun[key.owner] = begun
        self._count(key, 0, growth)
        self._runs.pop(key, None)
        self._runs[key] = _OpenRun(memory, self._clock() + self._limits.idle_s, size)
        return result

    def drop_ended(self) -> None:
        """End idle runs, and remove old marks and openings."""
        now = self._clock()
        while self._runs and next(iter(self._runs.values())).ends_at <= now:
            key = next(iter(self._runs))
            run = self._runs.pop(key)
            self._marks[key] = run.ends_at + self._limits.mark_s
            self._count(key, 0, MARK_BYTES - run.size)
        while self._marks and next(iter(self._marks.values())) <= now:
            key = next(iter(self._marks))
            del self._marks[key]
            self._count(key, -1, -MARK_BYTES)
        while self._begun and next(iter(self._begun.values()))[-1] <= now - OPENINGS_S:
            del self._begun[next(iter(self._begun))]

    def _check_new(self, key: RunKey) -> None:
        """Check the limits of new runs. Raises RateLimitExceeded, StateUnavailable."""
        now, begun = self._clock(), self._begun.get(key.owner, deque())
        while begun and begun[0] <= now - OPENINGS_S:
            begun.popleft()
        if len(begun) >= self._limits.new_runs:
            raise too_many_new_runs(begun[0] + OPENINGS_S - now)
        if self._runs_of[key.tenant_id] >= self._limits.runs:
            raise no_space()

    def _fits(self, key: RunKey, size: int) -> bool:
        has_share_of = partial(
            has_share,
            of_tenant=self._bytes_of[key.tenant_id],
            used=self.used_bytes,
            limit=self._max_bytes,
        )
        wanted = self._bytes_of_owner[key.owner] + size
        is_small = wanted <= self._max_bytes // SMALL_PART
        return has_share_of(size if is_small else size + wanted)

    def _count(self, key: RunKey, runs: int, size: int) -> None:
        self.used_bytes += size
        _add(self._bytes_of, key.tenant_id, size)
        _add(self._bytes_of_owner, key.owner, size)
        _add(self._runs_of, key.tenant_id, runs)


def _add(counts: "Counter[K]", key: K, change: int) -> None:
    """Change a count; drop zero, because the number of tenants and users is unlimited."""
    counts[key] += change
    if not counts[key]:
        del counts[key]
