"""How long to wait before a server is connected to again."""

from collections.abc import Callable

SHORTEST_S = 0.05
QUICK_S = 0.3
"""At most this before the first try: a restarted server is back within half a second."""

LONGEST_S = 30.0


def pause_before_connecting(setbacks: int, random: Callable[[], float]) -> float:
    """Give seconds: exponential with full jitter, after the first try that comes at once.

    ``setbacks`` counts the tries since the server last proved itself; ``random`` gives 0 … 1.
    """
    longest = min(LONGEST_S, QUICK_S * float(1 << min(setbacks, 16)))
    return SHORTEST_S + (longest - SHORTEST_S) * random()
