"""Storages that count in fixed windows (T-09): their contract, and the one in memory.

The asyncio memory storage of ``limits`` scans every live key at each hit (T-10). The one here keeps
the windows of each length in the order of their opening, which is also the order of their ends, so
only the first ones need checking.
"""

import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple

from limits.aio.storage import Storage

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.ratelimit.budget_rules import Budget

MAX_KEYS = 250_000
"""Maximum number of windows: two for each of 125,000 live documents, about 100 MB."""

_CLEARED_PER_OPENING = 4

CounterReading = tuple[int, float]
"""Reading of a counter: the charged amount, and the seconds until its window ends.

Both are 0 without a live window. A window that would end later than its length, after a clock went
back, is cut. (``get_expiry`` of ``limits`` returns a time of day, which needs two clocks that
agree.) A plain tuple, since a call makes several: a named one takes 0.4 µs.
"""

_NOTHING: CounterReading = (0, 0.0)


class Attempt(NamedTuple):
    """An attempt to charge a call: the budgets that refuse it, and all its budgets afterwards.

    If ``spent`` is empty, the call is admitted, and ``readings`` include its charge.
    """

    spent: Sequence[Budget]
    readings: Sequence[CounterReading]


class CountingStorage(Storage):
    """A ``limits`` storage that also counts against several budgets at once.

    A charge is ``incr`` of ``limits``, which opens a key's window. The fixed-window strategy of
    ``limits`` rebuilds every key, which is most of its cost.
    """

    @abstractmethod
    async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
        """Read counters, each given as key and seconds of its window, in their order."""

    async def add_many(self, charges: Sequence[tuple[str, int, int]]) -> list[int]:
        """Add each charge (key, seconds of its window, amount), and return the sums after each."""
        return [await self.incr(*charge) for charge in charges]

    async def read(self, budgets: Sequence[Budget]) -> list[CounterReading]:
        """Read the counters of ``budgets``, and charge nothing."""
        return await self.read_many([(b.key, b.window_s) for b in budgets])

    async def charge_tokens(self, budgets: Sequence[Budget], tokens: int) -> None:
        """Add ``tokens`` to every token budget, even beyond its limit (T-09)."""
        await self.add_many([(b.key, b.window_s, tokens) for b in budgets if b.unit == "tokens"])

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> Attempt:
        """Charge one call to every call budget, or to none if some are exhausted."""
        readings = await self.read(budgets)
        spent = spent_of(budgets, readings) or await self._charge_calls(budgets)
        return Attempt(spent, await self.read(budgets))

    async def _charge_calls(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Charge the document, then the tenant; return the first budget exceeded, if any.

        In this order a document's charge is undone only if the tenant's budget is used up, so it
        never refuses a call that could otherwise pass.
        """
        charged: list[Budget] = []
        for budget in budgets:
            if budget.unit == "calls":
                charged.append(budget)
                if await self.incr(budget.key, budget.window_s) > budget.limit:
                    await self._return_calls(charged)
                    return [budget]
        return []

    async def _return_calls(self, charged: Sequence[Budget]) -> None:
        sums = await self.add_many([(b.key, b.window_s, -1) for b in charged])
        ended = [b for b, count in zip(charged, sums, strict=True) if count < 0]
        if ended:  # their windows ended in between, and the charges with them
            await self.add_many([(b.key, b.window_s, 1) for b in ended])


def spent_of(budgets: Sequence[Budget], readings: Sequence[CounterReading]) -> list[Budget]:
    """Return the budgets that are used up."""
    return [b for b, (used, _) in zip(budgets, readings, strict=True) if used >= b.limit]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStorage:
    """A storage that replicas share, and its name for log lines (without user and password)."""

    storage: CountingStorage
    name: str
    disconnect: Callable[[], Awaitable[None]]


class _CountedWindow:
    __slots__ = ("count", "ends")

    def __init__(self, count: int, ends: float) -> None:
        self.count = count
        self.ends = ends

    def reading(self, now: float, window_s: int) -> CounterReading:
        left_s = self.ends - now
        return self.count, min(window_s, left_s)  # rounding may give more


class MemoryStorage(CountingStorage):
    """Counters of one process. Its operations do not suspend, so reading then charging is atomic.

    ``clock`` returns seconds. If it goes back, an exhausted window still ends within its length.
    Opening a window removes up to four ended windows of the same length, and as many of another
    length in turn, so the cost of a hit is independent of the number of keys.

    When all ``max_keys`` are live, the window that ends soonest is evicted. Its owner gains only
    the rest of that window, and the attack is expensive: a tenant opens at most two document
    windows with each call, and its own budget limits its calls. With the default limits over 200
    tenants have to spend their whole budgets within one window to evict a single one; invented
    doc_ids of one tenant cannot. Document and tenant windows are treated alike.
    """

    STORAGE_SCHEME = ["async+mcp-tools-proxy-memory"]  # noqa: RUF012 - the base class's declaration

    def __init__(
        self,
        uri: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_keys: int = MAX_KEYS,
    ) -> None:
        super().__init__(uri)
        self._clock = clock
        self._max_keys = max_keys
        self._windows: dict[int, dict[str, _CountedWindow]] = {}
        """By length in seconds, then by key, in the order of opening."""
        self._held = 0
        self._turn = 0

    def __repr__(self) -> str:
        return f"<MemoryStorage keys={len(self)} max_keys={self._max_keys}>"

    def __len__(self) -> int:
        """Count the windows held, including ended ones that are not yet removed."""
        return self._held

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        """Exceptions of a failing storage: none."""
        return ()

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add ``amount`` to the key's window and return the sum.

        A key without a live window, or whose charges were all returned, opens a window of
        ``expiry`` seconds (T-09), as the library's Redis script does.
        """
        return self._add(key, expiry, amount, self._clock())

    async def add_many(self, charges: Sequence[tuple[str, int, int]]) -> list[int]:
        """Add each charge, and return the sums after each."""
        now = self._clock()
        return [self._add(key, window_s, amount, now) for key, window_s, amount in charges]

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> Attempt:
        """Charge one call to every call budget, or to none if some are exhausted."""
        now = self._clock()
        live, readings, spent = self._read(budgets, now)
        if not spent:
            opens_one = None in live  # which may evict another
            for place, budget in enumerate(budgets):
                if budget.unit == "calls":
                    window = live[place]
                    if window is None or opens_one:
                        used = self._add(budget.key, budget.window_s, 1, now)
                    else:
                        used = window.count = window.count + 1
                    readings[place] = (used, readings[place][1] or budget.window_s)
        return Attempt(spent, readings)

    def _read(
        self, budgets: Sequence[Budget], now: float
    ) -> tuple[list[_CountedWindow | None], list[CounterReading], list[Budget]]:
        """Return live windows and readings of budgets, and the exhausted budgets.

        Without ``_live`` and ``reading``: calling them for each budget took half of the time.
        """
        live: list[_CountedWindow | None] = []
        readings, spent = [], []
        for budget in budgets:
            length = budget.window_s
            windows = self._windows.get(length)
            window = None if windows is None else windows.get(budget.key)
            if window is None or now >= window.ends or not window.count:
                live.append(None)
                readings.append(_NOTHING)
                continue
            left_s = window.ends - now
            if left_s > length:
                left_s = length
                window.ends = now + length  # as in _live
            live.append(window)
            readings.append((window.count, left_s))
            if window.count >= budget.limit:
                spent.append(budget)
        return live, readings, spent

    def _add(self, key: str, expiry: int, amount: int, now: float) -> int:
        window = self._live(key, expiry, now) or self._open(key, expiry, now)
        window.count += amount
        return window.count

    def _live(self, key: str, window_s: int, now: float) -> _CountedWindow | None:
        """Return the window of a key, if it is live and its count is not 0."""
        windows = self._windows.get(window_s)
        window = None if windows is None else windows.get(key)
        if window is None or now >= window.ends or not window.count:
            return None
        if window.ends - now > window_s:
            window.ends = now + window_s  # a restored machine's clock goes back
        return window

    def _open(self, key: str, window_s: int, now: float) -> _CountedWindow:
        windows = self._windows.get(window_s)
        if windows is None:
            windows = self._windows[window_s] = {}
        if key in windows:
            self._drop(windows, key)
        self._evict(windows, now)
        window = windows[key] = _CountedWindow(0, now + window_s)
        self._held += 1
        return window

    def _evict(self, opening: dict[str, _CountedWindow], now: float) -> None:
        self._clear_ended(opening, now)
        if len(self._windows) > 1:
            self._turn = (self._turn + 1) % len(self._windows)
            length = next(islice(self._windows, self._turn, None))
            others = self._windows[length]
            self._clear_ended(others, now)
            if not others and others is not opening:
                del self._windows[length]
        if self._held >= self._max_keys:
            firsts = [
                (it[key].ends, key, it) for it in self._windows.values() for key in islice(it, 1)
            ]
            _, soonest, windows = min(firsts, key=lambda found: found[0])
            self._drop(windows, soonest)

    def _clear_ended(self, windows: dict[str, _CountedWindow], now: float) -> None:
        for _ in range(_CLEARED_PER_OPENING):
            oldest = next(iter(windows), None)
            if oldest is None or now < windows[oldest].ends:
                break
            self._drop(windows, oldest)

    def _drop(self, windows: dict[str, _CountedWindow], key: str) -> None:
        del windows[key]
        self._held -= 1

    async def get(self, key: str) -> int:
        """Return the count of the key's live window, 0 without one."""
        now = self._clock()
        found = (windows.get(key) for windows in self._windows.values())
        return sum(window.count for window in found if window is not None and now < window.ends)

    async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
        """Read several counters."""
        now = self._clock()
        windows = [(self._live(key, length, now), length) for key, length in counters]
        return [_NOTHING if it is None else it.reading(now, length) for it, length in windows]

    async def get_expiry(self, key: str) -> float:
        """Return the time on ``clock`` when the key's window ends, by default the current time."""
        now = self._clock()
        found = (windows.get(key) for windows in self._windows.values())
        return max((window.ends for window in found if window is not None), default=now)

    async def check(self) -> bool:
        """Return True: memory is always available."""
        return True

    async def reset(self) -> int | None:
        """Remove every window; return their number."""
        forgotten = self._held
        self._windows.clear()
        self._held = 0
        return forgotten

    async def clear(self, key: str) -> None:
        """Remove the key's window."""
        for windows in self._windows.values():
            if key in windows:
                self._drop(windows, key)
