"""Limited places for costly work, one per tenant; other tenants wait in a queue."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum, auto

from mcp_tools_proxy.domain.fast_dataclass import dataclass


class Refusal(Enum):
    """Reason for refusing or withdrawing a place."""

    OWN_WORK = auto()
    """Work of the same tenant waits or runs."""
    MANY_WAIT = auto()
    """Too many tenants wait."""
    WAITED_TOO_LONG = auto()
    SHARE_IS_OVER = auto()
    """The work exceeded its share while another tenant waited."""


class NoPlace(Exception):
    """No place is available, or it was withdrawn; ``share_s`` is the share of this kind."""

    def __init__(self, refusal: Refusal, share_s: float) -> None:
        super().__init__(refusal.name)
        self.refusal = refusal
        self.share_s = share_s


@dataclass(slots=True, kw_only=True)
class _RunningWork:
    kind: str
    since: float
    timeout_s: float
    share_s: float
    end: asyncio.Timeout


@dataclass(slots=True, kw_only=True)
class _WaitingWork:
    kind: str
    admitted: asyncio.Future[None]


class FairPlaces:
    """Places for work of several kinds; for one event loop.

    Each tenant holds or waits for at most one place. Free places go to the longest-waiting tenants
    whose kind has a free place. Work is limited to ``timeout_s``, or to the ``shares_s`` seconds of
    its kind while a waiting tenant could use its place; the deadlines are recomputed whenever work
    starts to run, or starts or stops waiting.
    """

    def __init__(
        self,
        *,
        most_at_once: int,
        most_of_a_kind: int,
        most_waiting: int,
        wait_s: float,
        shares_s: Mapping[str, float],
    ) -> None:
        self._most_at_once = most_at_once
        self._most_of_a_kind = most_of_a_kind
        self._most_waiting = most_waiting
        self._wait_s = wait_s
        self._shares_s = shares_s
        self._taken: Counter[str] = Counter()
        """Places taken, by kind, including those of admitted work that has not started."""

        self._running: dict[str, _RunningWork] = {}
        self._waiting: dict[str, _WaitingWork] = {}
        """Waiting work by tenant, in order of arrival."""

        self._tenants: set[str] = set()

    def __repr__(self) -> str:
        return f"<FairPlaces: {self.running} running, {self.waiting} waiting>"

    @property
    def running(self) -> int:
        """Number of running blocks."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of waiting tenants."""
        return len(self._waiting)

    @asynccontextmanager
    async def place(self, tenant_id: str, *, kind: str, timeout_s: float) -> AsyncIterator[None]:
        """Wait for a place and hold it during the block, for up to ``timeout_s`` or its share.

        Raises NoPlace, TimeoutError.
        """
        if tenant_id in self._tenants:
            raise NoPlace(Refusal.OWN_WORK, self._shares_s[kind])
        self._tenants.add(tenant_id)
        try:
            await self._take(tenant_id, kind=kind)
            try:
                async with self._in_time(tenant_id, kind=kind, timeout_s=timeout_s):
                    yield
            finally:
                self._taken[kind] -= 1
                self._admit()
        finally:
            self._tenants.discard(tenant_id)

    async def _take(self, tenant_id: str, *, kind: str) -> None:
        if self._fits(kind=kind):
            self._taken[kind] += 1
            return
        if len(self._waiting) >= self._most_waiting:
            raise NoPlace(Refusal.MANY_WAIT, self._shares_s[kind])
        admitted = asyncio.get_running_loop().create_future()
        self._waiting[tenant_id] = _WaitingWork(kind=kind, admitted=admitted)
        self._limit_shares()
        try:
            async with asyncio.timeout(self._wait_s):
                await admitted
        except BaseException as error:
            if admitted.done() and not admitted.cancelled():  # admitted during the timeout
                self._taken[kind] -= 1
                self._admit()
            if isinstance(error, TimeoutError):
                raise NoPlace(Refusal.WAITED_TOO_LONG, self._shares_s[kind]) from None
            raise
        finally:
            self._waiting.pop(tenant_id, None)
            self._limit_shares()

    def _fits(self, *, kind: str) -> bool:
        return self._taken.total() < self._most_at_once and self._taken[kind] < self._most_of_a_kind

    def _admit(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.admitted.done() and self._fits(kind=waiting.kind):
                self._taken[waiting.kind] += 1
                waiting.admitted.set_result(None)

    @asynccontextmanager
    async def _in_time(self, tenant_id: str, *, kind: str, timeout_s: float) -> AsyncIterator[None]:
        share_s = min(timeout_s, self._shares_s[kind])
        since = asyncio.get_running_loop().time()
        end = asyncio.timeout(timeout_s)
        try:
            async with end:
                self._running[tenant_id] = _RunningWork(
                    kind=kind, since=since, timeout_s=timeout_s, share_s=share_s, end=end
                )
                self._limit_shares()
                try:
                    yield
                finally:
                    del self._running[tenant_id]
        except TimeoutError:
            if not end.expired() or (end.when() or 0) >= since + timeout_s:
                raise
            raise NoPlace(Refusal.SHARE_IS_OVER, share_s) from None

    def _limit_shares(self) -> None:
        """Set the deadline of running work: its share if waiting work could use the place."""
        kinds = {it.kind for it in self._waiting.values() if not it.admitted.done()}
        is_full = self._taken.total() >= self._most_at_once
        for it in self._running.values():
            if not it.end.expired():
                is_wanted = it.kind in kinds or (bool(kinds) and is_full)
                it.end.reschedule(it.since + (it.share_s if is_wanted else it.timeout_s))
