"""How long to wait before the backend is dialled again: pure."""

from collections.abc import Callable

from mcp_tools_proxy.connector.websocket_link import LinkFault

STEADY_S = 30.0
"""A link that lived as long as this is dialled again at once. No sooner: two gateways with one
identifier would evict each other without a pause."""

SHORTEST_S = 0.25
"""The first pause where nobody said that we should stay away, in seconds."""

REFUSED_SHORTEST_S = 1.0
REFUSED_LONGEST_S = 30.0
"""The first and the longest pause after a backend said so, in seconds."""

RETRY_AFTER_LONGEST_S = 300.0
"""The longest pause that a backend may ask for, in seconds."""


def pause_before_dialling(
    fault: LinkFault,
    setbacks: int,
    random: Callable[[], float],
    *,
    lived_s: float,
    longest_s: float,
) -> float:
    """Give seconds: exponential, between half of the time and all of it.

    ``setbacks`` counts the accidents in a row, or what was meant in a row, without this one;
    ``lived_s`` is how long the link was up; ``longest_s`` is for accidents; ``random`` gives 0 … 1.
    What the backend asked for is the least: one that asks for 0 s is not dialled without a pause.
    """
    if lived_s >= STEADY_S:
        return 0.0
    retry_after_s = min(fault.retry_after_s or 0.0, RETRY_AFTER_LONGEST_S)
    shortest, longest = SHORTEST_S, longest_s
    if fault.kind.is_deliberate:
        shortest, longest = REFUSED_SHORTEST_S, max(longest_s, REFUSED_LONGEST_S)
    whole = min(longest, shortest * float(1 << min(setbacks, 16)))
    return max(retry_after_s, whole * (0.5 + 0.5 * random()))
