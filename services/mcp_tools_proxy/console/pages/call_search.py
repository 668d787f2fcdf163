"""Search of audit records: converts page filters to API queries."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.page_request import PageRequest, page_address
from mcp_tools_proxy.console.pages.call_record import ShownRecord
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.audit.record_search import cursor_of
from mcp_tools_proxy.telemetry.recorder import REFUSED_SUMMARY

ALL_EVENTS = "all"
"""Filter value: all records."""

DEEDS = "deeds"
"""Filter value: all records except console page views, which are the majority."""

UNAUTHENTICATED = "unauthenticated"
"""Filter value: requests refused without a valid token, which have a separate audit."""

_UNAUTHENTICATED_EVENTS = frozenset({"request.refused", REFUSED_SUMMARY})

FAILED_CODES = "failed"
"""Filter value: every code except OK."""

_CHOICES = (ALL_EVENTS, DEEDS, UNAUTHENTICATED)
"""Event filters applied by the page or sent as another parameter."""

_TEXTS = (
    *("user_id", "agent", "tool", "server", "doc_id", "trace_id", "token_id", "run_id"),
    *("code", "event"),
)
_SENDER = ("user_id", "agent", "run_id")
"""Fields that requests without a valid token lack. Known expired tokens have an id and tenant."""

_BEFORE_CALLS = frozenset(
    {
        Check.AUTHENTICATION,
        Check.REQUEST,
        Check.AUTHORIZATION,
        Check.AUDIT,
        Check.LIFECYCLE,
        Check.OPERATION,
    }
)
"""Checks that refuse requests before a call exists, and those of operator requests."""

_TIMES = ("since", "until")
_LEAST = "min_ms"

SHOWN_FIRST = ("tenant_id", "tool", "agent", "code")
"""Fields that are always visible; others are collapsed unless they have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """The filter form; for operators of one tenant, the tenant is fixed."""

    values: Mapping[str, str]
    is_of_own_tenant: bool = False
    times: Mapping[str, datetime] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    min_ms: float = 0.0
    """Minimum duration in milliseconds."""

    @classmethod
    def of(cls, page: PageRequest) -> "CallFilter":
        """Read the filter from the query; invalid values become errors of their fields."""
        values = {"tenant_id": page.tenant(), **{name: page.query(name) for name in _TEXTS}}
        times: dict[str, datetime] = {}
        problems: dict[str, str] = {}
        for name in _TIMES:
            text = page.query(name)
            try:
                times |= {name: _utc(text)} if text else {}
            except (ValueError, OverflowError):
                problems[name] = "Enter a UTC time such as 2026-11-26T14:30."
            values[name] = text
        values[_LEAST] = page.query(_LEAST)
        min_ms = _milliseconds(values[_LEAST])
        if min_ms is None:
            problems[_LEAST] = "Enter a number of milliseconds, such as 500."
        return cls(
            values=values,
            is_of_own_tenant=page.tenant_id is not None,
            times=times,
            problems=problems,
            min_ms=min_ms or 0.0,
        )

    @property
    def stream_query(self) -> dict[str, str]:
        """Filters applied by the API, without times."""
        by_page = {("code", FAILED_CODES), *(("event", it) for it in _CHOICES)}
        return {
            name: value
            for name, value in self.values.items()
            if name not in (*_TIMES, _LEAST) and value and (name, value) not in by_page
        }

    @property
    def query(self) -> dict[str, str]:
        """Filters applied by the API, with times."""
        times = {name: time.isoformat().replace("+00:00", "Z") for name, time in self.times.items()}
        apart = {"unauthenticated": "true"} if self.values["event"] == UNAUTHENTICATED else {}
        return {**self.stream_query, **times, **apart}

    @property
    def is_widened(self) -> bool:
        """Whether other records are included because the code also ends requests without a call."""
        return not self.values["event"] and CHECK_OF_CODE.get(self.values["code"]) in _BEFORE_CALLS

    @property
    def is_of_both_audits(self) -> bool:
        """Whether requests refused without a valid token are included."""
        is_of_sender = any(self.values[name] for name in _SENDER)
        return self.is_widened and not is_of_sender

    @property
    def is_of_page(self) -> bool:
        """Whether the page has to filter the API's results further."""
        is_of_events = self.values["event"] in ("", DEEDS, UNAUTHENTICATED)
        return is_of_events or self.values["code"] == FAILED_CODES or self.min_ms > 0

    def wants(self, record: ShownRecord) -> bool:
        """Return whether a record passes the filters that the API does not support."""
        if not (self.values["event"] or self.is_widened or record.is_call):
            return False
        if self.values["event"] == DEEDS and record.is_page_view:
            return False
        if self.values["event"] == UNAUTHENTICATED and not _is_unauthenticated(record):
            return False
        if self.min_ms and (record.duration_ms or 0) < self.min_ms:
            return False
        return self.values["code"] != FAILED_CODES or record.code not in ("", "OK")

    @property
    def has_more(self) -> bool:
        """Whether a collapsed field has a value."""
        return any(value for name, value in self.values.items() if name not in SHOWN_FIRST)

    @property
    def fields_given(self) -> int:
        """The number of active filters."""
        own = {"tenant_id"} if self.is_of_own_tenant else set()
        return sum(bool(value) for name, value in self.values.items() if name not in own)

    @property
    def is_empty(self) -> bool:
        """Whether no filter is active."""
        return self.fields_given == 0

    def typed(self, name: str) -> str:
        """Return a time formatted for its field, in UTC."""
        time = self.times.get(name)
        return self.values[name] if time is None else time.strftime("%Y-%m-%dT%H:%M")

    def address(self, path: str = "/console/calls", **more: object) -> str:
        """Return the address of a page with this filter and additional parameters."""
        return page_address(path, {**self.values, **more})


def _is_unauthenticated(record: ShownRecord) -> bool:
    """Return whether a record is of a request without a valid token; live ones are mixed.

    Requests with a known expired or revoked token have the token's id and tenant.
    """
    if record.code == "UNAUTHENTICATED":
        return True
    is_proven = not record.payload.keys().isdisjoint(("tenant_id", "token_id", "subject"))
    return record.event in _UNAUTHENTICATED_EVENTS and not is_proven


def _milliseconds(text: str) -> float | None:
    """Parse milliseconds; 0 if blank, None if invalid."""
    try:
        number = float(text or 0)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _utc(text: str) -> datetime:
    """Parse a time; the default zone is UTC. Raises ValueError, OverflowError."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


AUDIT = "/internal/mcp/audit"

ROWS = 40
"""Records per page, which fit in 60 kB with names of any length."""

MAX_REQUESTS = 4
"""API requests per page; if matches are rare, the rest follows on the next page."""

MANY = 500
"""Records per API request if the page filters further."""

MAX_TRACE_RECORDS = 50
"""Records shown of one trace."""

_BETWEEN, _END = ".", "-"
"""Separator of the two audits' cursors, and the cursor of an exhausted audit."""

_UNAUTHENTICATED: Mapping[str, str] = {"unauthenticated": "true"}


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Records, newest first, and the cursor of older ones; None at the end."""

    records: list[ShownRecord] = field(default_factory=list)
    older: int | str | None = None


async def find_records(
    api: ApiClient, wanted: CallFilter, cursor: str | int | None, rows: int = ROWS
) -> FoundRecords:
    """Return a page of matching records. Raises ApiRefused.

    If both audits match, both are read, merged by time, and continued by a combined cursor.
    """
    if not wanted.is_of_both_audits:
        return await _find(api, wanted, {}, cursor, rows)
    starts = str(cursor or _BETWEEN).split(_BETWEEN)
    if len(starts) != len(_AUDITS):
        return await _find(api, wanted, {}, cursor, rows)
    found = [
        FoundRecords() if start == _END else await _find(api, wanted, more, start, rows)
        for start, more in zip(starts, _AUDITS, strict=True)
    ]
    merged = sorted(
        ((record.at, number, record) for number, it in enumerate(found) for record in it.records),
        key=lambda it: it[0],
        reverse=True,
    )
    while rows < len(merged) and merged[rows][0] == merged[rows - 1][0]:  # a cursor can be a time
        rows += 1
    del merged[rows:]
    rest = [
        _rest(start, it, [record for _, of, record in merged if of == number])
        for number, (start, it) in enumerate(zip(starts, found, strict=True))
    ]
    older = None if {*rest} == {_END} else _BETWEEN.join(rest)
    return FoundRecords([record for _, _, record in merged], older)


_AUDITS: Sequence[Mapping[str, str]] = ({"unauthenticated": "false"}, _UNAUTHENTICATED)


def _rest(start: str, found: FoundRecords, shown: Sequence[ShownRecord]) -> str:
    """Return the cursor of one audit's records that are not shown yet."""
    if len(shown) == len(found.records):
        return _END if found.older is None else str(found.older)
    return str(shown[-1].cursor) if shown else start


async def _find(
    api: ApiClient,
    wanted: CallFilter,
    more: Mapping[str, str],
    cursor: str | int | None,
    rows: int,
) -> FoundRecords:
    found: list[ShownRecord] = []
    query = {**wanted.query, **more, "limit": max(rows, MANY) if wanted.is_of_page else rows}
    for _ in range(MAX_REQUESTS):
        page = await _page(api, {**query, "cursor": cursor})
        for record in filter(wanted.wants, page.records):
            if len(found) >= rows and record.cursor != found[-1].cursor:
                return FoundRecords(found, found[-1].cursor)
            found.append(record)
        cursor = page.older
        if cursor is None or len(found) >= rows:
            break
    return FoundRecords(found, cursor)


async def _page(api: ApiClient, query: Mapping[str, object]) -> FoundRecords:
    """Return one unfiltered page of the audit. Raises ApiRefused."""
    answer = await api.get(AUDIT, query)
    return FoundRecords([*map(ShownRecord, answer["records"])], answer.get("next_cursor"))


async def find_record(
    api: ApiClient, tenant_id: str, seq: int, at: str, worker: str
) -> ShownRecord | None:
    """Return the record with a number and a time, and of a worker if there are several.

    The time is needed because each replica, and without an audit file each start, counts from the
    beginning: the number alone returned another call. Raises ApiRefused.
    """
    try:
        cursor = max(1, cursor_of(at) + 1) if worker else seq + 1
    except ValueError:
        return None
    query = {"tenant_id": tenant_id, "cursor": cursor, "limit": 1}
    for more in _AUDITS:  # both audits have separate numbers
        for record in (await _page(api, {**query, **more})).records:
            if (record.seq, record.at, record.worker) == (seq, at, worker):
                return record
    return None


async def find_trace(api: ApiClient, tenant_id: str, trace_id: str) -> list[ShownRecord]:
    """Return the newest records of a trace in chronological order. Raises ApiRefused."""
    query = {"tenant_id": tenant_id, "trace_id": trace_id, "limit": MAX_TRACE_RECORDS}
    page = FoundRecords()
    for _ in range(MAX_REQUESTS):
        page = await _page(api, {**query, "cursor": page.older})
        if page.older is None or page.records:
            break
    return page.records[::-1]
