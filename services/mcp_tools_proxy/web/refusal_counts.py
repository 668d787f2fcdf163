"""Counts the unauthenticated refusals of each address; only the first ones have a record each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mcp_tools_proxy.web.client_address import group_of

MAX_RECORDED = 20
"""Unauthenticated refusals of one address in a window that are recorded one by one."""

WINDOW_S = 60.0

MAX_ADDRESSES = 10_000
"""Addresses that are counted in a window, IPv6 by /64: a gateway on the internet sees any number.
Refusals of further ones are counted together."""

MAX_SUMMARIES = 100
"""Addresses that have a summary of their own, those with the most refusals."""


@dataclass(slots=True)
class RefusalSummary:
    """The refusals of one window that have no record of their own.

    ``peer`` is the group of an address; None where the refusals of several are counted together.
    """

    peer: str | None
    first: str
    last: str
    requests: int = 0
    addresses: int = 1
    codes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Address:
    recorded: int = 0
    rest: RefusalSummary | None = None


class RefusalCounts:
    """The unauthenticated refusals of the present window, in bounded memory."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Address] = {}
        self._others: RefusalSummary | None = None

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, peer: str, code: str, time: str) -> bool:
        """Count one refusal; return whether it is recorded by itself."""
        group = group_of(peer)
        counted = self._addresses.get(group)
        if counted is None and len(self._addresses) < MAX_ADDRESSES:
            counted = self._addresses[group] = _Address()
        if counted is None:
            self._others = _counted(self._others, None, code, time)
            return False
        if counted.recorded < MAX_RECORDED:
            counted.recorded += 1
            return True
        counted.rest = _counted(counted.rest, group, code, time)
        return False

    def end_window(self) -> Sequence[RefusalSummary]:
        """Begin a new window, and return the summaries of the one that has ended."""
        rest = [it.rest for it in self._addresses.values() if it.rest is not None]
        rest.sort(key=lambda it: it.requests, reverse=True)
        others = self._others
        for summary in rest[MAX_SUMMARIES:]:
            others = _merged(others, summary)
        self._addresses, self._others = {}, None
        return [*rest[:MAX_SUMMARIES], *([] if others is None else [others])]


def _counted(
    summary: RefusalSummary | None, peer: str | None, code: str, time: str
) -> RefusalSummary:
    summary = summary or RefusalSummary(peer, time, time)
    summary.requests += 1
    summary.codes[code] += 1
    summary.last = time
    return summary


def _merged(others: RefusalSummary | None, one: RefusalSummary) -> RefusalSummary:
    if others is None:
        return RefusalSummary(None, one.first, one.last, one.requests, 1, one.codes)
    others.requests += one.requests
    others.addresses += 1
    others.codes += one.codes
    others.first, others.last = min(others.first, one.first), max(others.last, one.last)
    return others
