"""Exponential back-off with jitter: growing pauses between attempts."""

import random
from collections.abc import Callable
from dataclasses import dataclass

_MAX_DOUBLINGS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from ``first_s`` up to ``longest_s``.

    Jitter keeps many gateways from coming back in step: a pause is a random part of its time, at
    least ``least_share`` of it and at least ``shortest_s``.
    """

    first_s: float
    longest_s: float
    least_share: float = 0.5
    shortest_s: float = 0.0

    def pause_s(self, failures: int, jitter: Callable[[], float] = random.random) -> float:
        """Return the pause after one more failure than ``failures``; ``jitter`` returns 0 … 1."""
        whole_s = min(self.longest_s, self.first_s * float(1 << min(failures, _MAX_DOUBLINGS)))
        least_s = max(self.shortest_s, self.least_share * whole_s)
        return least_s + (whole_s - least_s) * jitter()
