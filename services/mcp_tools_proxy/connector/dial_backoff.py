"""Computes the pause before the backend is dialled again: exponential back-off with jitter."""

from collections.abc import Callable

from mcp_tools_proxy.aiokits.backoff import Backoff
from mcp_tools_proxy.connector.websocket_link import LinkFault

STEADY_S = 30.0
"""A link that was up for so many seconds is dialled again at once, others after a pause: two
gateways with one identifier evict each other, and would do so in a tight loop."""

SHORTEST_S = 0.25
"""The first pause after an accident, in seconds."""

REFUSED_SHORTEST_S = 1.0
REFUSED_LONGEST_S = 30.0
"""The first and the longest pause after a deliberate fault, in seconds."""

RETRY_AFTER_LONGEST_S = 300.0
"""The longest ``Retry-After`` that is respected, in seconds."""


def pause_before_dial(
    fault: LinkFault,
    setbacks: int,
    random: Callable[[], float],
    *,
    uptime_s: float,
    longest_s: float,
) -> float:
    """Return the pause in seconds: exponential, with a jitter of 50 to 100 %.

    ``setbacks`` counts the faults of the same nature (accident or deliberate) in a row before this
    one. ``uptime_s`` is how long the link was up, ``longest_s`` the longest pause after accidents,
    ``random`` returns 0 … 1. ``Retry-After`` is a minimum only: 0 s does not mean no pause.
    """
    if uptime_s >= STEADY_S:
        return 0.0
    retry_after_s = min(fault.retry_after_s or 0.0, RETRY_AFTER_LONGEST_S)
    backoff = Backoff(first_s=SHORTEST_S, longest_s=longest_s)
    if fault.kind.is_deliberate:
        backoff = Backoff(first_s=REFUSED_SHORTEST_S, longest_s=max(longest_s, REFUSED_LONGEST_S))
    return max(retry_after_s, backoff.pause_s(setbacks, random))
