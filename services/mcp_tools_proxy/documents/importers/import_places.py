"""Places for imports, which tenants take in turn: at most one each, the others wait in a queue."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

MOST_AT_ONCE = 3
MOST_OF_A_KIND = 2
"""Of those with OCR, and of those without: two scans take a quarter of an hour."""

MOST_WAITING = 24
"""Tenants that wait; each has an upload on disk."""

WAIT_S = 90.0
"""Seconds that an import waits for a place: longer than two others may take meanwhile."""

SHARE_S = 60.0
OCR_SHARE_S = 300.0
"""Seconds after which an import ends while another tenant waits for its place."""


class ImporterBusy(Exception):
    """There is no place for an import now, or no longer; ``reason`` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, kw_only=True)
class _RunningImport:
    with_ocr: bool
    since: float
    timeout_s: float
    share_s: float
    end: asyncio.Timeout


@dataclass(slots=True, kw_only=True)
class _WaitingImport:
    with_ocr: bool
    admitted: asyncio.Future[None]


class ImportPlaces:
    """Two places with OCR, two without, and three in all; for one event loop."""

    def __init__(
        self, *, wait_s: float = WAIT_S, share_s: float = SHARE_S, ocr_share_s: float = OCR_SHARE_S
    ) -> None:
        self._wait_s = wait_s
        self._share_s = share_s
        self._ocr_share_s = ocr_share_s
        self._taken: Counter[bool] = Counter()
        """By whether there is OCR; those that were admitted and have not begun are included."""

        self._running: dict[str, _RunningImport] = {}
        self._waiting: dict[str, _WaitingImport] = {}
        """By tenant, in the order of their arrival."""

        self._tenants: set[str] = set()
        """Tenants that wait or have a place."""

    def __repr__(self) -> str:
        return f"<ImportPlaces: {len(self._running)} running, {len(self._waiting)} waiting>"

    @property
    def running(self) -> int:
        """How many imports run."""
        return len(self._running)

    @asynccontextmanager
    async def place(
        self, tenant_id: str, *, with_ocr: bool, timeout_s: float
    ) -> AsyncIterator[None]:
        """Wait for a place, and hold it during the block, which has ``timeout_s`` seconds.

        While another tenant waits for the place, the block has its share of seconds only. Raises
        ImporterBusy, TimeoutError.
        """
        if tenant_id in self._tenants:
            raise ImporterBusy("an import of this tenant runs already; send it again")
        self._tenants.add(tenant_id)
        try:
            await self._take(tenant_id, with_ocr=with_ocr)
            try:
                async with self._in_time(tenant_id, with_ocr=with_ocr, timeout_s=timeout_s):
                    yield
            finally:
                self._taken[with_ocr] -= 1
                self._admit()
        finally:
            self._tenants.discard(tenant_id)

    async def _take(self, tenant_id: str, *, with_ocr: bool) -> None:
        """Acquire a place, or wait for one. Raises ImporterBusy."""
        if self._fits(with_ocr=with_ocr):
            self._taken[with_ocr] += 1
            return
        if len(self._waiting) >= MOST_WAITING:
            raise ImporterBusy("too many tenants wait for an import; send it again")
        admitted = asyncio.get_running_loop().create_future()
        self._waiting[tenant_id] = _WaitingImport(with_ocr=with_ocr, admitted=admitted)
        self._limit_shares()
        try:
            async with asyncio.timeout(self._wait_s):
                await admitted
        except BaseException as error:
            if admitted.done() and not admitted.cancelled():  # in the very turn of the time-out
                self._taken[with_ocr] -= 1
                self._admit()
            if isinstance(error, TimeoutError):
                raise ImporterBusy("imports of other tenants run; send it again") from None
            raise
        finally:
            self._waiting.pop(tenant_id, None)
            self._limit_shares()

    def _fits(self, *, with_ocr: bool) -> bool:
        return self._taken.total() < MOST_AT_ONCE and self._taken[with_ocr] < MOST_OF_A_KIND

    def _admit(self) -> None:
        """Admit those that have waited longest to free places."""
        for waiting in self._waiting.values():
            if not waiting.admitted.done() and self._fits(with_ocr=waiting.with_ocr):
                self._taken[waiting.with_ocr] += 1
                waiting.admitted.set_result(None)

    @asynccontextmanager
    async def _in_time(
        self, tenant_id: str, *, with_ocr: bool, timeout_s: float
    ) -> AsyncIterator[None]:
        """Run the block within its time. Raises ImporterBusy, TimeoutError."""
        share_s = min(timeout_s, self._ocr_share_s if with_ocr else self._share_s)
        since = asyncio.get_running_loop().time()
        end = asyncio.timeout(timeout_s)
        try:
            async with end:
                self._running[tenant_id] = _RunningImport(
                    with_ocr=with_ocr, since=since, timeout_s=timeout_s, share_s=share_s, end=end
                )
                self._limit_shares()
                try:
                    yield
                finally:
                    del self._running[tenant_id]
        except TimeoutError:
            if not end.expired() or (end.when() or 0) >= since + timeout_s:
                raise
            raise ImporterBusy(
                f"the import took over {share_s:g} s while other tenants waited; send it again "
                "later, or cut the file into parts"
            ) from None

    def _limit_shares(self) -> None:
        """Set the end of each import: its share while another waits for its place, or its time."""
        kinds = {it.with_ocr for it in self._waiting.values() if not it.admitted.done()}
        is_full = self._taken.total() >= MOST_AT_ONCE
        for it in self._running.values():
            if not it.end.expired():
                is_wanted = it.with_ocr in kinds or (bool(kinds) and is_full)
                it.end.reschedule(it.since + (it.share_s if is_wanted else it.timeout_s))
