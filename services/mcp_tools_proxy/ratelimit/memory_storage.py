"""Fixed windows in this process's memory, behind the ``limits`` library's storage interface.

The library's own asyncio memory storage scans every live key at each hit (T-10). This one keeps its
windows in the order they opened. All windows of one gateway are equally long, so that is also the
order in which they end, and only the first ones need checking. (With windows of different lengths
counts stay right; an ended window just stays in memory until it is the first.)
"""

import time
from collections.abc import Callable, Sequence

from mcp_tools_proxy.ratelimit.budget_counter import CountingStorage
from mcp_tools_proxy.ratelimit.budget_limits import Budget

MAX_KEYS = 250_000
"""Most windows: two for each of 125,000 live documents; about 100 MB with ids of usual length."""

_CLEARED_PER_OPENING = 4


class _CountedWindow:
    __slots__ = ("count", "ends")

    def __init__(self, count: int, ends: float) -> None:
        self.count = count
        self.ends = ends


class MemoryStorage(CountingStorage):
    """Counters of one process; nothing in it suspends, so reading then charging is atomic.

    ``clock`` returns seconds; ``get_expiry`` uses the same clock. If it goes back, an exhausted
    window still ends within its length. Opening a window removes up to four ended ones, so a hit
    costs the same at any number of keys.

    When all ``max_keys`` are live, the window that ends soonest is evicted. Who was charged gains
    the rest of one window and nothing more, and the attack is expensive: a tenant opens at most two
    document windows with each call, and its own budget limits its calls. With the default limits
    over 200 tenants have to spend their whole budgets within one window to evict a single one;
    invented doc_ids of one tenant cannot. Document and tenant windows are treated alike.
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
        self._windows: dict[str, _CountedWindow] = {}

    def __repr__(self) -> str:
        return f"<MemoryStorage keys={len(self)} max_keys={self._max_keys}>"

    def __len__(self) -> int:
        """Count the windows held, ended ones not yet cleared included."""
        return len(self._windows)

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        """Exceptions that mean a failing storage: none."""
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
        return [self._add(*charge, now) for charge in charges]

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Charge one call to every call budget, or to none if some are exhausted; return those."""
        now = self._clock()
        spent = [b for b in budgets if self._count(b.key, now) >= b.limit]
        if not spent:
            for budget in budgets:
                if budget.unit == "calls":
                    self._add(budget.key, budget.window_s, 1, now)
        return spent

    def _add(self, key: str, expiry: int, amount: int, now: float) -> int:
        window = self._windows.get(key)
        if window is not None and window.count and now < window.ends:
            window.count += amount
            return window.count
        self._windows.pop(key, None)
        self._evict(now)
        self._windows[key] = _CountedWindow(amount, now + expiry)
        return amount

    def _evict(self, now: float) -> None:
        for _ in range(_CLEARED_PER_OPENING):
            oldest = next(iter(self._windows), None)
            if oldest is None or now < self._windows[oldest].ends:
                break
            del self._windows[oldest]
        if len(self._windows) >= self._max_keys:
            del self._windows[next(iter(self._windows))]

    async def get(self, key: str) -> int:
        """Return the count of the key's live window, 0 without one."""
        return self._count(key, self._clock())

    async def get_many(self, keys: Sequence[str]) -> list[int]:
        """Return the counts of several keys."""
        now = self._clock()
        return [self._count(key, now) for key in keys]

    def _count(self, key: str, now: float) -> int:
        window = self._windows.get(key)
        return window.count if window is not None and now < window.ends else 0

    async def get_expiry(self, key: str) -> float:
        """Return the time on ``clock`` when the key's window ends; now without one."""
        now = self._clock()
        window = self._windows.get(key)
        return window.ends if window is not None and now < window.ends else now

    async def seconds_left(self, keys: Sequence[str], window_s: int) -> list[float]:
        """Return the seconds until each key's window ends, ``window_s`` at most."""
        now = self._clock()
        return [self._seconds_left(key, now, window_s) for key in keys]

    def _seconds_left(self, key: str, now: float, window_s: int) -> float:
        window = self._windows.get(key)
        if window is None or now >= window.ends:
            return 0.0
        window.ends = min(window.ends, now + window_s)  # a restored machine's clock goes back
        return min(window.ends - now, window_s)

    async def check(self) -> bool:
        """Return True: memory is always available."""
        return True

    async def reset(self) -> int | None:
        """Remove every window; return how many there were."""
        forgotten = len(self._windows)
        self._windows.clear()
        return forgotten

    async def clear(self, key: str) -> None:
        """Remove the key's window."""
        self._windows.pop(key, None)
