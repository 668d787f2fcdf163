"""Counts records that cost their senders no budget: the first of a minute have a line each."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

WINDOW_S = 60.0

MAX_SENDERS = 10_000
"""Senders that are counted in a window: a gateway on the internet sees any number of addresses.
Records of further ones are counted together."""

MAX_SUMMARIES = 100
"""Senders that have a summary of their own, those with the most records."""

TENANT_SENDERS = 5
"""All senders of a tenant have as many records one by one as this many senders: a tenant may have a
thousand tokens."""

Fields = Mapping[str, object]
"""What a record says of its sender."""


@dataclass(slots=True)
class RecordSummary:
    """Records that are not written one by one; ``fields`` are those in which all of them agree."""

    fields: Fields
    first: str
    last: str
    requests: int = 0
    senders: int = 1
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Sender:
    recorded: int = 0
    rest: RecordSummary | None = None


class RecordCounts:
    """The records of the present window, in bounded memory; ``clock`` is monotonic, in seconds.

    ``most_recorded`` of one sender are recorded one by one, and of all senders of a tenant
    TENANT_SENDERS times as many.
    """

    def __init__(self, most_recorded: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_recorded = most_recorded
        self._clock = clock
        self._senders: dict[str, _Sender] = {}
        self._tenants: Counter[object] = Counter()
        self._others: RecordSummary | None = None
        self._ends_at = 0.0

    def __len__(self) -> int:
        return len(self._senders)

    def add(self, sender: str, fields: Fields, kind: str, timestamp: str) -> float | None:
        """Count one record; return None if it is recorded by itself.

        Otherwise return the seconds until records of its sender are recorded one by one again.
        """
        now = self._clock()
        if now >= self._ends_at:
            self._begin_window(now)
        tenant = fields.get("tenant_id")
        counted = self._senders.get(sender)
        if counted is None and len(self._senders) < MAX_SENDERS:
            counted = self._senders[sender] = _Sender()
        if counted is None:
            self._others = _counted(self._others, fields, kind, timestamp)
        elif counted.recorded < self._most_recorded and self._has_place(tenant):
            counted.recorded += 1
            return None
        else:
            counted.rest = _counted(counted.rest, fields, kind, timestamp)
        return self._ends_at - now

    def take_summaries(self) -> Sequence[RecordSummary]:
        """Return the summaries of what was counted since they were taken last."""
        rest = [it.rest for it in self._senders.values() if it.rest is not None]
        rest.sort(key=lambda it: it.requests, reverse=True)
        others = self._others
        for summary in rest[MAX_SUMMARIES:]:
            others = summary if others is None else _merged(others, summary)
        for counted in self._senders.values():
            counted.rest = None
        self._others = None
        return [*rest[:MAX_SUMMARIES], *([] if others is None else [others])]

    def _has_place(self, tenant: object) -> bool:
        """Use a place of a tenant; return whether there was one."""
        if tenant is None:
            return True
        self._tenants[tenant] += 1
        return self._tenants[tenant] <= TENANT_SENDERS * self._most_recorded

    def _begin_window(self, now: float) -> None:
        """Count from zero; senders whose summary was not taken yet stay until it is."""
        self._senders = {
            name: _Sender(rest=it.rest) for name, it in self._senders.items() if it.rest is not None
        }
        self._tenants.clear()
        self._ends_at = now + WINDOW_S


def _counted(
    summary: RecordSummary | None, fields: Fields, kind: str, timestamp: str
) -> RecordSummary:
    if summary is None:
        summary = RecordSummary(fields, timestamp, timestamp)
    elif summary.fields != fields:
        summary.fields = _in_common(summary.fields, fields)
    summary.requests += 1
    summary.counts[kind] += 1
    summary.last = timestamp
    return summary


def _merged(others: RecordSummary, one: RecordSummary) -> RecordSummary:
    return RecordSummary(
        _in_common(others.fields, one.fields),
        min(others.first, one.first),
        max(others.last, one.last),
        others.requests + one.requests,
        others.senders + one.senders,
        others.counts + one.counts,
    )


def _in_common(one: Fields, other: Fields) -> Fields:
    return {name: value for name, value in one.items() if other.get(name) == value}
