"""Counts the refused tokens of each address, in bounded memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mcp_tools_proxy.web.client_address import group_of

MAX_REFUSED = 20
"""Refused tokens of one address in a window; beyond it, refusals say how long to wait."""

WINDOW_S = 60.0

MAX_ADDRESSES = 10_000
"""Addresses that are counted; one more replaces the one whose window began first."""


@dataclass(slots=True)
class _RefusalWindow:
    ends_at: float
    refused: int = 0


class BadTokenCounts:
    """Counts refused tokens by address, IPv6 by /64; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, _RefusalWindow] = {}  # in the order of their ends

    def __len__(self) -> int:
        return len(self._windows)

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

    def wait_s(self, address: str) -> float | None:
        """Return the seconds that ``address`` should wait; None while it is below the limit."""
        self._remove_ended()
        window = self._windows.get(group_of(address))
        if window is None or window.refused < MAX_REFUSED:
            return None
        return window.ends_at - self._clock()

    def _remove_ended(self) -> None:
        now = self._clock()
        while self._windows and next(iter(self._windows.values())).ends_at <= now:
            self._remove_first()

    def _remove_first(self) -> None:
        del self._windows[next(iter(self._windows))]
