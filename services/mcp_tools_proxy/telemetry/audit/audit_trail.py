"""Central path of audit records: to the log, and to the audit file or memory.

Records that cost their sender no budget are limited per minute, and then summarized. A slow reader
of live records never blocks the trail.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import NamedTuple

import structlog

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, SETTINGS, Entry, RuleSource
from mcp_tools_proxy.domain.errors import AuditUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.audit.audit_file import AuditFile
from mcp_tools_proxy.telemetry.audit.record_search import Record, RecordFilter, parse_record
from mcp_tools_proxy.telemetry.log_lines import RenderedLine, line_of, timestamp, to_ascii_json
from mcp_tools_proxy.telemetry.recorder import DONE_SUMMARY, REFUSED_SUMMARY, Bound
from mcp_tools_proxy.wire.uris import group_of

RECORDS_ARE_REQUIRED = RuleSource(SETTINGS, "MCP_PROXY_AUDIT_REQUIRED")

MAX_RECENT = 1000
"""Records kept in memory without an audit file."""


MOST_RECORDED = {Bound.UNAUTHENTICATED: 20, Bound.REFUSED: 60, Bound.DONE: 300}
"""Individual records per sender and minute, among those that cost no budget."""

SUMMARY_S = 5.0
"""Seconds between two summaries: ``kill -9`` loses the counts since the last ones."""

_SENDER_FIELDS = (
    *("tenant_id", "user_id", "agent", "token_id", "issuer", "subject", "entry", "peer"),
)


Fields = Mapping[str, object]
"""A record's fields about its sender."""


@dataclass(slots=True)
class RecordSummary:
    """Records that are not written individually; ``fields`` are their common fields."""

    fields: Fields
    first: str
    last: str
    requests: int = 0
    senders: int = 1
    counts: Counter[str] = field(default_factory=Counter)


class LostRecords(NamedTuple):
    """Number of records that the reader has lost at this position."""

    records: int


class RecordFeed:
    """The matching records in order; for use in the recording event loop.

    Once the queue is full, records are lost until the reader has emptied it, so that the loss has
    one position.
    """

    def __init__(
        self,
        wanted: RecordFilter,
        *,
        reader_tenant: str | None = None,
        is_for_other_worker: bool = False,
    ) -> None:
        """Create a feed; ``reader_tenant`` is the reader's tenant, None for an operator of all.

        The reader of ``is_for_other_worker`` is connected to another worker, which counts it.
        """
        self.wanted = wanted
        self.reader_tenant = reader_tenant
        self.is_for_other_worker = is_for_other_worker
        self.lost = 0
        self._waiting: deque[str] = deque()
        self._lost_here = 0
        self._changed = asyncio.Event()

    def offer(self, record: Record, line: str) -> None:
        """Queue a record, with its JSON in ``line``, if it matches. Never blocks."""
        if self.wanted.matches(record):
            self.add(line)

    @property
    def room(self) -> int:
        """Number of records that can be added without a loss."""
        return 0 if self._lost_here else MAX_WAITING - len(self._waiting)

    def add(self, line: str) -> None:
        """Queue a record that matches."""
        if self._lost_here or len(self._waiting) >= MAX_WAITING:
            self.lose(1)
        else:
            self._waiting.append(line)
            self._changed.set()

    def lose(self, records: int) -> None:
        """Report lost records to the reader."""
        self._lost_here += records
        self.lost += records
        self._changed.set()

    def take(self) -> tuple[Sequence[str], int]:
        """Return the waiting records, and the number of those lost after them."""
        taken = tuple(self._waiting), self._lost_here
        self._waiting.clear()
        self._lost_here = 0
        return taken

    async def next(self) -> str | LostRecords:
        """Wait for the next record, as JSON, or for a number of lost records."""
        while True:
            if self._waiting:
                return self._waiting.popleft()
            if self._lost_here:
                lost, self._lost_here = LostRecords(self._lost_here), 0
                return lost
            self._changed.clear()
            await self._changed.wait()


class AuditTrail:
    """Records all attempts in the log, and in ``file`` if set.

    Records that cost their sender no budget are limited, then summarized: one valid token rotated
    the history away with 700 malformed requests a second.

    Without a file, the newest MAX_RECENT records are kept in memory. Records of unauthenticated
    requests are kept separately: a flood without a token rotated ten files away in six minutes.
    """

    def __init__(
        self, file: AuditFile | None = None, unauthenticated_file: AuditFile | None = None
    ) -> None:
        self.file = file
        self.unauthenticated_file = unauthenticated_file or file
        self._recent = {False: _RecentRecords(), True: _RecentRecords()}
        self._counts = {bound: RecordCounts(most) for bound, most in MOST_RECORDED.items()}
        self._summary_timer: asyncio.TimerHandle | None = None
        self._feeds: list[RecordFeed] = []
        self._log = structlog.get_logger().bind()  # bound once: the lazy proxy binds for each line

    def open(self) -> None:
        """Open the files that are set and not open. Blocks. Raises AuditFileUnusable."""
        for file in self._files:
            file.open()

    def close(self) -> None:
        """Write the queued records, and close the files. Blocks."""
        for file in self._files:
            file.close()

    @property
    def lost(self) -> int:
        """Records lost because the queue of their file was full."""
        return sum(file.lost for file in self._files)

    @property
    def failure(self) -> str | None:
        """The current write error of a file; None while all are writable."""
        return next((it.failure for it in self._files if it.failure is not None), None)

    @property
    def _files(self) -> list[AuditFile]:
        files = dict.fromkeys((self.file, self.unauthenticated_file))
        return [file for file in files if file is not None]

    def reserve(self) -> bool:
        """Reserve a place for a call's record; return whether one was reserved.

        Raises AuditUnavailable if records are required and this one could not be kept.
        """
        file = self.file
        if file is None or not file.required:
            return False
        if file.reserve():
            return True
        raise _unavailable(file)

    def check_available(self) -> None:
        """Raise AuditUnavailable if ``reserve`` would."""
        file = self.file
        if file is not None and file.required and not file.has_place:
            raise _unavailable(file)

    def record(
        self,
        level: str,
        event: str,
        trace_id: str | None,
        payload: Mapping[str, object],
        *,
        reserved: bool = False,
        bound: Bound | None = None,
    ) -> float | None:
        """Record one attempt; ``level`` is a logger's method, ``reserved`` comes from ``reserve``.

        Returns None or, for a record that is only counted in a summary, the seconds until its
        sender has individual records again.
        """
        if bound is not None:
            wait_s = self._count(bound, event, payload)
            if wait_s is not None:
                if reserved and self.file is not None:
                    self.file.release()
                return wait_s
        is_apart = bound is Bound.UNAUTHENTICATED
        self._write(level, event, trace_id, payload, reserved=reserved, is_apart=is_apart)
        return None

    def sum_up(self) -> None:
        """Record the summaries since the last ones."""
        self._summary_timer = None
        for bound, counts in self._counts.items():
            is_apart = bound is Bound.UNAUTHENTICATED
            for summary in counts.take_summaries():
                self._write(*_summary(bound, summary), is_apart=is_apart)

    def _count(self, bound: Bound, event: str, payload: Fields) -> float | None:
        """Count a record; return None to write it individually, otherwise the seconds to wait.

        Without authentication, records are not limited, because senders cannot be distinguished.
        """
        is_apart = bound is Bound.UNAUTHENTICATED
        fields = {name: payload[name] for name in _SENDER_FIELDS if name in payload}
        if is_apart:
            sender = fields["peer"] = group_of(str(payload.get("peer")))
        elif "token_id" in fields or "subject" in fields:
            sender = " ".join(str(fields.get(it)) for it in ("token_id", "issuer", "subject"))
        elif fields.get("entry") == Entry.CONNECTOR:
            sender = Entry.CONNECTOR
        else:
            return None
        counted = event if bound is Bound.DONE else str(payload.get("code"))
        wait_s = self._counts[bound].add(sender, fields, counted, timestamp())
        if wait_s is not None and self._summary_timer is None:
            loop = asyncio.get_running_loop()
            self._summary_timer = loop.call_later(SUMMARY_S, self.sum_up)
        return wait_s

    def _write(
        self,
        level: str,
        event: str,
        trace_id: str | None,
        payload: Fields,
        *,
        reserved: bool = False,
        is_apart: bool,
    ) -> None:
        line = line_of(timestamp(), level, event, payload, trace_id)
        text = RenderedLine(to_ascii_json(line))
        getattr(self._log, level)(text)
        file = self.unauthenticated_file if is_apart else self.file
        if file is None:
            self._recent[is_apart].add(text)
        else:
            file.put(line, reserved=reserved)
        if self._feeds:
            for feed in self._feeds:
                feed.offer(line, text)

    @property
    def followers(self) -> int:
        """Number of active feeds, without those for other workers."""
        return sum(not feed.is_for_other_worker for feed in self._feeds)

    def followers_of(self, tenant_id: str) -> int:
        """Return the number of feeds with readers of one tenant."""
        return sum(feed.reader_tenant == tenant_id for feed in self._feeds)

    @contextmanager
    def following(self, feed: RecordFeed) -> Iterator[None]:
        """Offer each record to ``feed`` inside the block, before it has a number or a signature.

        The file's own records about itself are not offered.
        """
        self.add_feed(feed)
        try:
            yield
        finally:
            self.remove_feed(feed)

    def add_feed(self, feed: RecordFeed) -> None:
        """Offer each record to a feed; see ``following``."""
        self._feeds.append(feed)

    def remove_feed(self, feed: RecordFeed) -> None:
        """Offer no more records to a feed."""
        self._feeds.remove(feed)

    def recent(self, *, unauthenticated: bool = False) -> list[dict[str, object]]:
        """Return the records in memory, the oldest first, each with its number under ``seq``."""
        return self._recent[unauthenticated].numbered()


class _RecentRecords:
    """The newest records of one kind, as JSON: dicts would burden the garbage collector."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_RECENT)
        self._added = 0

    def add(self, line: str) -> None:
        """Add a record; the oldest one is dropped if necessary."""
        self._added += 1
        self._lines.append(line)

    def numbered(self) -> list[dict[str, object]]:
        """Return the records, the oldest first, each with its number under ``seq``."""
        first = self._added - len(self._lines) + 1
        records = ((seq, parse_record(line)) for seq, line in enumerate(self._lines, first))
        return [{**record, "seq": seq} for seq, record in records if record is not None]


def _summary(bound: Bound, summary: RecordSummary) -> tuple[str, str, None, Fields]:
    fields = {
        "requests": summary.requests,
        "first": summary.first,
        "last": summary.last,
        "senders": summary.senders,
        **summary.fields,
    }
    if bound is Bound.DONE:
        return "info", DONE_SUMMARY, None, {"code": "OK", "events": dict(summary.counts), **fields}
    ((code, _),) = summary.counts.most_common(1)
    decided = {"code": code, "check": CHECK_OF_CODE[code], "codes": dict(summary.counts)}
    return "warning", REFUSED_SUMMARY, None, {**decided, **fields}


def _unavailable(file: AuditFile) -> AuditUnavailable:
    error = AuditUnavailable(
        "the audit record of this call cannot be written now, and unrecorded calls are not "
        "allowed; try again later",
        reason=file.failure or "the queue of the audit file is full",
    )
    error.rule = RECORDS_ARE_REQUIRED
    return error


MAX_WAITING = 256
"""Maximum number of records that wait for a reader; further ones are lost."""


WINDOW_S = 60.0

MAX_SENDERS = 10_000
"""Maximum number of senders counted individually in a window, because a gateway on the internet
sees any number of addresses. Further senders are counted together."""

MAX_SUMMARIES = 100
"""Maximum number of individual summaries, for the senders with the most records."""

TENANT_SENDERS = 5
"""Limit of individual records per tenant, in multiples of one sender's: a tenant can have a
thousand tokens."""


@dataclass(slots=True)
class _Sender:
    recorded: int = 0
    rest: RecordSummary | None = None


class RecordCounts:
    """The records of the current window, in bounded memory; ``clock`` is monotonic, in seconds.

    One sender has at most ``most_recorded`` individual records, and all senders of a tenant
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
        """Count one record; return None if it is recorded individually.

        Otherwise return the seconds until its sender has individual records again.
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
        """Return the summaries since the last call."""
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
        """Use one of a tenant's places; return whether one was free."""
        if tenant is None:
            return True
        self._tenants[tenant] += 1
        return self._tenants[tenant] <= TENANT_SENDERS * self._most_recorded

    def _begin_window(self, now: float) -> None:
        """Reset the counts; senders with a pending summary stay until it is taken."""
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
