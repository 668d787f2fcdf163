"""Counts the calls of the last hour, minute by minute, for the console and the API.

The metrics only have the tenants that the operator names, and no quantiles. Here memory is bounded
for any number of tenants: calls beyond a minute's limits are counted only in the totals.

Budgets near their end are remembered as well. Each outcome has the budget with the smallest
remaining share, so the store is not queried; other budgets of the call are unknown here.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.errors import ServerUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import CallRecord, Failed

MINUTES = 60
MINUTE_S = 60

MAX_ROWS = 256
"""Pairs of tenant and server counted separately in one minute; others count only in the totals."""

MAX_SERVERS = 256
"""Servers counted separately in one minute."""

OTHER_SERVERS = "other"
"""The id for servers beyond MAX_SERVERS."""

SHORTEST_S = 0.0001
GROWTH = 1.15
"""Ratio of consecutive time buckets: quantiles are within 8 %."""

_LOG_GROWTH = math.log(GROWTH)
_LAST_BUCKET = 120
"""The bucket of 20 minutes, longer than any call."""


@dataclass(slots=True)
class CallSum:
    """Calls by their code, and by the bucket of their time."""

    codes: dict[str, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    longest_s: float = 0.0
    unsent: dict[str, int] = field(default_factory=dict)
    """Calls for a server that were never sent to it, by code; most were refused."""

    def add(self, code: str, seconds: float, bucket: int) -> None:
        """Add one call; ``bucket`` is that of its time."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.times[bucket] = self.times.get(bucket, 0) + 1
        self.longest_s = max(self.longest_s, seconds)

    def update(self, other: "CallSum") -> None:
        """Add all calls of another sum."""
        for code, calls in other.codes.items():
            self.codes[code] = self.codes.get(code, 0) + calls
        for bucket, calls in other.times.items():
            self.times[bucket] = self.times.get(bucket, 0) + calls
        self.longest_s = max(self.longest_s, other.longest_s)
        for code, calls in other.unsent.items():
            self.unsent[code] = self.unsent.get(code, 0) + calls

    @property
    def not_sent(self) -> int:
        """Number of calls for a server that were never sent; excluded from the other figures."""
        return sum(self.unsent.values())

    @property
    def all_codes(self) -> dict[str, int]:
        """Calls by code, including those never sent."""
        return dict(Counter(self.codes) + Counter(self.unsent))

    @property
    def total(self) -> int:
        """Number of calls."""
        return sum(self.codes.values())

    @property
    def errors(self) -> int:
        """Number of calls with another code than ``OK``."""
        return self.total - self.codes.get("OK", 0)

    def quantile_s(self, share: float) -> float | None:
        """Return the time within which ``share`` of the calls ended; None without calls.

        It never exceeds the slowest call, and equals it if that call decides: users distrusted
        another p99.
        """
        rank, seen = math.ceil(share * self.total), 0
        if 0 < self.total <= rank:
            return self.longest_s
        for bucket in sorted(self.times):
            seen += self.times[bucket]
            if seen >= rank:
                return min(_middle_s(bucket), self.longest_s)
        return None


class MinuteCalls(NamedTuple):
    """Calls that ended in one minute, which begins at ``at``, in seconds since 1970."""

    at: int
    total: int
    errors: int


@dataclass(slots=True)
class CallFigures:
    """The calls of the last hour: all, by server (None: the gateway itself), and by minute.

    ``minutes`` and the lists of ``per_minute`` (calls sent to a server) start with the oldest.
    ``is_complete`` is False if some calls were not counted for their tenant.
    """

    whole: CallSum = field(default_factory=CallSum)
    by_server: dict[str | None, CallSum] = field(default_factory=dict)
    per_minute: dict[str | None, list[int]] = field(default_factory=dict)
    minutes: list[MinuteCalls] = field(default_factory=list)
    is_complete: bool = True

    def update(self, other: "CallFigures") -> None:
        """Add the calls of another process."""
        self.whole.update(other.whole)
        for server_id, calls in other.by_server.items():
            self.by_server.setdefault(server_id, CallSum()).update(calls)
        places = {minute.at: place for place, minute in enumerate(self.minutes)}
        for place, minute in enumerate(other.minutes):
            own = places.get(minute.at)  # None if a minute began between the two
            if own is None:
                continue
            known = self.minutes[own]
            self.minutes[own] = MinuteCalls(
                known.at, known.total + minute.total, known.errors + minute.errors
            )
            for server_id, counts in other.per_minute.items():
                self.per_minute.setdefault(server_id, [0] * MINUTES)[own] += counts[place]
        self.is_complete = self.is_complete and other.is_complete


@dataclass(slots=True)
class _Minute:
    """The calls of one minute, by server, and by tenant and server; ``number`` is since 1970."""

    number: int
    by_server: dict[str | None, CallSum] = field(default_factory=dict)
    rows: dict[tuple[str, str | None], CallSum] = field(default_factory=dict)
    is_complete: bool = True

    def add(
        self, tenant_id: str, server_id: str | None, code: str, seconds: float, *, was_sent: bool
    ) -> None:
        """Add a call to the totals, and to its tenant's row if there is space."""
        if server_id not in self.by_server and len(self.by_server) >= MAX_SERVERS:
            server_id = OTHER_SERVERS
        for calls in self._sums_for(tenant_id, server_id):
            if was_sent or server_id is None:
                calls.add(code, seconds, _bucket(seconds))
            else:
                calls.unsent[code] = calls.unsent.get(code, 0) + 1

    def _sums_for(self, tenant_id: str, server_id: str | None) -> Iterator[CallSum]:
        yield self.by_server.setdefault(server_id, CallSum())
        row = self.rows.get((tenant_id, server_id))
        if row is None:
            if len(self.rows) >= MAX_ROWS:
                self.is_complete = False
                return
            row = self.rows[tenant_id, server_id] = CallSum()
        yield row

    def sums_of(self, tenant_id: str | None) -> Iterable[tuple[str | None, CallSum]]:
        """Return the calls of a tenant by server; None represents all tenants."""
        if tenant_id is None:
            return self.by_server.items()
        return ((server, row) for (tenant, server), row in self.rows.items() if tenant == tenant_id)


def _now() -> float:
    return datetime.now(UTC).timestamp()


class RecentCalls:
    """Counts calls as they end; for one event loop. ``clock`` returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = _now) -> None:
        self._clock = clock
        self._minutes = [_Minute(-1) for _ in range(MINUTES)]
        self.budgets = TightBudgets(clock)
        """The budgets that these calls left near their end."""

    def add(self, record: CallRecord) -> None:
        """Count a finished call."""
        tenant_id = record.call.caller.tenant_id
        number = int(self._clock()) // MINUTE_S
        minute = self._minutes[number % MINUTES]
        if minute.number != number:
            minute = self._minutes[number % MINUTES] = _Minute(number)
        outcome = record.outcome
        server_id = _server_of(record)
        code, sent = record.code, record.was_sent
        minute.add(tenant_id, server_id, code, record.duration_s, was_sent=sent)
        if outcome is not None and outcome.budget is not None and not outcome.replayed:
            self.budgets.note(tenant_id, outcome.budget)

    def figures(self, tenant_id: str | None) -> CallFigures:
        """Return a tenant's figures, including the current minute; None represents all tenants."""
        now = int(self._clock()) // MINUTE_S
        figures = CallFigures()
        for place, number in enumerate(range(now - MINUTES + 1, now + 1)):
            minute, total, errors = self._minutes[number % MINUTES], 0, 0
            if minute.number == number:
                for server_id, calls in minute.sums_of(tenant_id):
                    figures.by_server.setdefault(server_id, CallSum()).update(calls)
                    counts = figures.per_minute.setdefault(server_id, [0] * MINUTES)
                    counts[place] = calls.total
                    total += calls.total + calls.not_sent
                    errors += calls.errors + calls.not_sent - calls.unsent.get("OK", 0)
                figures.is_complete = figures.is_complete and minute.is_complete
            figures.minutes.append(MinuteCalls(number * MINUTE_S, total, errors))
        for calls in figures.by_server.values():
            figures.whole.update(calls)
        return figures


def _server_of(record: CallRecord) -> str | None:
    if record.spec is not None:
        return record.spec.server_id
    outcome = record.outcome
    if isinstance(outcome, Failed) and isinstance(outcome.error, ServerUnavailable):
        server_id = (outcome.error.details or {}).get("server_id")
        return server_id if isinstance(server_id, str) else None
    return None


def _bucket(seconds: float) -> int:
    if seconds <= SHORTEST_S:
        return 0
    return min(1 + int(math.log(seconds / SHORTEST_S) / _LOG_GROWTH), _LAST_BUCKET)


def _middle_s(bucket: int) -> float:
    return SHORTEST_S * GROWTH ** (bucket - 0.5) if bucket else SHORTEST_S


NEAR_END = 0.2
"""Remaining share below which a budget counts as near its end."""

MAX_BUDGETS = 1000
"""Remembered budgets; further ones are ignored."""


class TightBudget(NamedTuple):
    """A budget of a tenant after a call; its window ends at ``ends_at``."""

    tenant_id: str
    status: BudgetStatus
    ends_at: float

    @property
    def share(self) -> float:
        """The remaining share."""
        return self.status.remaining / self.status.limit

    @property
    def key(self) -> tuple[str, str, str]:
        """Its tenant and rule."""
        return self.tenant_id, self.status.name, self.status.unit


def tightest_first(budgets: Iterable[TightBudget]) -> list[TightBudget]:
    """Return the budgets by their remaining share."""
    return sorted(budgets, key=lambda it: (it.share, it.tenant_id, it.status.name))


class TightBudgets:
    """The budgets near their end, each until its window ends.

    A rule can count separately for each user or document: per tenant and rule, only the tightest
    budget is remembered.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._budgets: dict[tuple[str, str, str], TightBudget] = {}

    def note(self, tenant_id: str, status: BudgetStatus) -> None:
        """Remember the tightest budget after a call if it is near its end."""
        if status.remaining > NEAR_END * status.limit:
            return
        now = self._clock()
        budget = TightBudget(tenant_id, status, now + status.reset_s)
        known = self._budgets.get(budget.key)
        if known is None and not self._has_place(now):
            return
        if known is None or known.ends_at <= now or budget.share <= known.share:
            self._budgets[budget.key] = budget

    def near_end(self, tenant_id: str | None) -> Sequence[TightBudget]:
        """Return a tenant's budgets near their end, the tightest first; None: of all tenants.

        Each has the seconds until it is full again.
        """
        now = self._clock()
        self._forget_ended(now)
        found = (it for it in self._budgets.values() if tenant_id in (None, it.tenant_id))
        return [
            it._replace(status=replace(it.status, reset_s=math.ceil(it.ends_at - now)))
            for it in tightest_first(found)
        ]

    def _has_place(self, now: float) -> bool:
        if len(self._budgets) >= MAX_BUDGETS:
            self._forget_ended(now)
        return len(self._budgets) < MAX_BUDGETS

    def _forget_ended(self, now: float) -> None:
        self._budgets = {key: it for key, it in self._budgets.items() if it.ends_at > now}
