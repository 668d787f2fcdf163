"""How long to wait before the next attempt to connect to a server, or to discover it again."""

from collections.abc import Callable

SHORTEST_S = 0.05
QUICK_S = 0.3
"""Upper bound of the first pause: a restarted server is back within half a second."""

LONGEST_S = 30.0

REFRESH_RETRY_S = 30.0
"""The pause before a failed discovery is repeated, if the next one is not due sooner."""


def pause_before_connecting(failed_attempts: int, random: Callable[[], float]) -> float:
    """Return the pause in seconds: exponential with full jitter.

    ``failed_attempts`` counts the attempts since the server last proved itself. ``random`` returns
    0 … 1; it keeps many gateways from reconnecting to a restarted server in step.
    """
    upper_bound_s = min(LONGEST_S, QUICK_S * float(1 << min(failed_attempts, 16)))
    return SHORTEST_S + (upper_bound_s - SHORTEST_S) * random()


def pause_before_refreshing(
    interval_s: float, jitter: Callable[[], float], *, failed: bool
) -> float | None:
    """Return the seconds until the next discovery, ±10 % so that servers are not listed in step.

    ``interval_s`` 0 turns discovery by time off (returns None), but a ``failed`` one is repeated
    after at most REFRESH_RETRY_S all the same.
    """
    if failed:
        interval_s = min(interval_s or REFRESH_RETRY_S, REFRESH_RETRY_S)
    return interval_s * (0.9 + 0.2 * jitter()) if interval_s else None
