"""Counts the refused tokens of each address, in bounded memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mcp_tools_proxy.web.client_address import group_of

MAX_REFUSED = 20
"""Refused tokens of one address in a window; beyond it unknown ones are refused unchecked."""

WINDOW_S = 60.0

MAX_ADDRESSES = 10_000
"""Addresses that are counted; one more replaces the one whose window began first."""

CHECKS_A_SECOND = 1_500
"""Signatures that are checked per second for an address over its limit.

Only that distinguishes a valid new JWT from a forged one, and a valid one has to pass even among
1,000 forged ones per second. So many checks cost a fifth of one core.
"""


@dataclass(slots=True)
class _RefusalWindow:
    ends_at: float
    refused: int = 0
    second: int = 0
    checks: int = 0


class BadTokenCounts:
    """Counts refused tokens by address, IPv6 by /64; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, _RefusalWindow] = {}  # in the order of their ends
        self._over_limit = 0

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def any_over_limit(self) -> bool:
        """Whether any address may be over its limit; while none is, requests skip all checks."""
        return self._over_limit > 0

    def count(self, address: str) -> None:
        """Count one refused token of ``address``."""
        self._remove_ended()
        group = group_of(address)
        window = self._windows.get(group)
        if window is None:
            if len(self._windows) >= MAX_ADDRESSES:
                self._remove_first()
            window = self._windows[group] = _RefusalWindow(self._clock() + WINDOW_S)
        window.refused += 1
        if window.refused == MAX_REFUSED:
            self._over_limit += 1

    def wait_s(self, address: str) -> float | None:
        """Return for how many seconds unknown tokens of ``address`` are refused, None if not."""
        self._remove_ended()
        window = self._windows.get(group_of(address))
        if window is None or window.refused < MAX_REFUSED:
            return None
        return window.ends_at - self._clock()

    def consume_check(self, address: str) -> bool:
        """Count a signature check of ``address``; return False if this second has had enough."""
        window = self._windows.get(group_of(address))
        if window is None:
            return True
        second = int(self._clock())
        if window.second != second:
            window.second, window.checks = second, 0
        window.checks += 1
        return window.checks <= CHECKS_A_SECOND

    def _remove_ended(self) -> None:
        now = self._clock()
        while self._windows and next(iter(self._windows.values())).ends_at <= now:
            self._remove_first()

    def _remove_first(self) -> None:
        window = self._windows.pop(next(iter(self._windows)))
        self._over_limit -= window.refused >= MAX_REFUSED
