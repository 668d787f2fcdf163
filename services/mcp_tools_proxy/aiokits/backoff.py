"""How long to wait before a server is connected to, or looked at, again."""

from collections.abc import Callable

SHORTEST_S = 0.05
QUICK_S = 0.3
"""At most this before the first try: a restarted server is back within half a second."""

LONGEST_S = 30.0

REFRESH_RETRY_S = 30.0
"""The pause before a discovery that failed is tried again, if it is not due sooner."""


def pause_before_connecting(setbacks: int, random: Callable[[], float]) -> float:
    """Give seconds: exponential with full jitter, after the first try that comes at once.

    ``setbacks`` counts the tries since the server last proved itself; ``random`` gives 0 … 1.
    """
    longest = min(LONGEST_S, QUICK_S * float(1 << min(setbacks, 16)))
    return SHORTEST_S + (longest - SHORTEST_S) * random()


def pause_before_refreshing(
    interval_s: float, jitter: Callable[[], float], *, failed: bool
) -> float | None:
    """Give seconds to the next discovery, not the same for all servers; None is never.

    ``interval_s`` 0 is never, unless the last one ``failed``.
    """
    if failed:
        interval_s = min(interval_s or REFRESH_RETRY_S, REFRESH_RETRY_S)
    return interval_s * (0.9 + 0.2 * jitter()) if interval_s else None
