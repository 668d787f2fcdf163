"""Finds records of the past: from the address of a page to queries of the API's audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.page_request import PageRequest, page_address
from mcp_tools_proxy.console.pages.call_record import ShownRecord
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check
from mcp_tools_proxy.telemetry.recorder import REFUSED_SUMMARY

ALL_EVENTS = "all"
"""The choice of records that are of no call as well."""

DEEDS = "deeds"
"""The same without the looks of the console, which are most of them."""

UNAUTHENTICATED = "unauthenticated"
"""The choice of requests refused without a valid token, whose records are kept apart."""

_UNAUTHENTICATED_EVENTS = frozenset({"request.refused", REFUSED_SUMMARY})

FAILED_CODES = "failed"
"""The choice of every code but OK."""

_CHOICES = (ALL_EVENTS, DEEDS, UNAUTHENTICATED)
"""Choices of events by which the page filters, or the API by another parameter."""

_TEXTS = ("user_id", "agent", "tool", "server", "doc_id", "trace_id", "token_id", "code", "event")
_SENDER = ("user_id", "agent")
"""Fields that no request without a valid token has; one that is known has its id and tenant."""

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
"""Checks that refuse requests before there is a call, and those of operators."""

_TIMES = ("since", "until")
_LEAST = "min_ms"

SHOWN_FIRST = ("tenant_id", "tool", "agent", "code")
"""The fields that are always there; the others are folded away until one has a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """The fields of the form, and the tenant, which may be the only one of the person."""

    values: Mapping[str, str]
    is_of_own_tenant: bool = False
    times: Mapping[str, datetime] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    min_ms: float = 0.0
    """Only records of what took so many milliseconds, or longer."""

    @classmethod
    def of(cls, page: PageRequest) -> "CallFilter":
        """Read what the address says; a time that is none is a problem of its field."""
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
        """What the API filters by, whenever it was."""
        by_page = {("code", FAILED_CODES), *(("event", it) for it in _CHOICES)}
        return {
            name: value
            for name, value in self.values.items()
            if name not in (*_TIMES, _LEAST) and value and (name, value) not in by_page
        }

    @property
    def query(self) -> dict[str, str]:
        """The same for records of the past."""
        times = {name: time.isoformat().replace("+00:00", "Z") for name, time in self.times.items()}
        apart = {"unauthenticated": "true"} if self.values["event"] == UNAUTHENTICATED else {}
        return {**self.stream_query, **times, **apart}

    @property
    def is_widened(self) -> bool:
        """Whether records of no call are wanted too: the code also ends other requests."""
        return not self.values["event"] and CHECK_OF_CODE.get(self.values["code"]) in _BEFORE_CALLS

    @property
    def is_of_both_audits(self) -> bool:
        """Whether requests that were refused without a valid token are wanted too."""
        is_of_sender = any(self.values[name] for name in _SENDER)
        return self.is_widened and not is_of_sender

    @property
    def is_of_page(self) -> bool:
        """Whether the API finds more than is wanted."""
        is_of_events = self.values["event"] in ("", DEEDS, UNAUTHENTICATED)
        return is_of_events or self.values["code"] == FAILED_CODES or self.min_ms > 0

    def wants(self, record: ShownRecord) -> bool:
        """Return whether a record is one that the API cannot tell from others."""
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
        """Whether a field that is folded away has a value."""
        return any(value for name, value in self.values.items() if name not in SHOWN_FIRST)

    @property
    def fields_given(self) -> int:
        """How many fields filter."""
        own = {"tenant_id"} if self.is_of_own_tenant else set()
        return sum(bool(value) for name, value in self.values.items() if name not in own)

    @property
    def is_empty(self) -> bool:
        """Whether the person filters nothing."""
        return self.fields_given == 0

    def typed(self, name: str) -> str:
        """Return a time as its field shows it, in UTC."""
        time = self.times.get(name)
        return self.values[name] if time is None else time.strftime("%Y-%m-%dT%H:%M")

    def address(self, path: str = "/console/calls", **more: object) -> str:
        """Return the address of a page with the same filter, and ``more``."""
        return page_address(path, {**self.values, **more})


def _is_unauthenticated(record: ShownRecord) -> bool:
    """Return whether a record is of a request without a valid token; live ones come with others.

    That of an expired or revoked token that is known has the token's id and tenant.
    """
    if record.code == "UNAUTHENTICATED":
        return True
    is_proven = not record.payload.keys().isdisjoint(("tenant_id", "token_id", "subject"))
    return record.event in _UNAUTHENTICATED_EVENTS and not is_proven


def _milliseconds(text: str) -> float | None:
    """Read a number of milliseconds, 0 for none; None for what is no number."""
    try:
        number = float(text or 0)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _utc(text: str) -> datetime:
    """Read a time; one without a zone is in UTC. Raises ValueError, OverflowError."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


AUDIT = "/internal/mcp/audit"

ROWS = 40
"""Records of a page: one of 60 kB holds them, whatever their names are."""

MAX_REQUESTS = 4
"""Requests of one page: where few records are wanted, the rest is behind its link."""

MANY = 500
"""Records of one request where not all of them are wanted."""

MAX_TRACE_RECORDS = 50
"""Records of one trace that its page shows."""

_BETWEEN, _END = ".", "-"
"""What separates the cursors of both audits, and the cursor of one without older records."""

_UNAUTHENTICATED: Mapping[str, str] = {"unauthenticated": "true"}


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Records, the newest first, and the cursor of the older ones, if there may be any."""

    records: list[ShownRecord] = field(default_factory=list)
    older: int | str | None = None


async def find_records(
    api: ApiClient, wanted: CallFilter, cursor: str | int | None, rows: int = ROWS
) -> FoundRecords:
    """Return a page of the records that are wanted. Raises ApiRefused."""
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
    )[:rows]
    rest = [
        _rest(start, it, [record for _, of, record in merged if of == number])
        for number, (start, it) in enumerate(zip(starts, found, strict=True))
    ]
    older = None if {*rest} == {_END} else _BETWEEN.join(rest)
    return FoundRecords([record for _, _, record in merged], older)


_AUDITS: Sequence[Mapping[str, str]] = ({"unauthenticated": "false"}, _UNAUTHENTICATED)


def _rest(start: str, found: FoundRecords, shown: Sequence[ShownRecord]) -> str:
    """Return the cursor of the records of one audit that are not shown yet."""
    if len(shown) == len(found.records):
        return _END if found.older is None else str(found.older)
    return str(shown[-1].seq) if shown else start


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
            if len(found) == rows:
                return FoundRecords(found, found[-1].seq)
            found.append(record)
        cursor = page.older
        if cursor is None or len(found) == rows:
            break
    return FoundRecords(found, cursor)


async def _page(api: ApiClient, query: Mapping[str, object]) -> FoundRecords:
    """Return one page of the audit as it is. Raises ApiRefused."""
    answer = await api.get(AUDIT, query)
    return FoundRecords([*map(ShownRecord, answer["records"])], answer.get("next_cursor"))


async def find_record(api: ApiClient, tenant_id: str, seq: int, at: str) -> ShownRecord | None:
    """Return the record of a number and a time. Raises ApiRefused.

    Each replica counts its own records, and without an audit file each start counts anew: the
    number alone had found another call.
    """
    query = {"tenant_id": tenant_id, "cursor": seq + 1, "limit": 1}
    for more in _AUDITS:  # unauthenticated requests have numbers of their own
        for record in (await _page(api, {**query, **more})).records:
            if (record.seq, record.at) == (seq, at):
                return record
    return None


async def find_trace(api: ApiClient, tenant_id: str, trace_id: str) -> list[ShownRecord]:
    """Return the newest records of a trace, the oldest of them first. Raises ApiRefused."""
    query = {"tenant_id": tenant_id, "trace_id": trace_id, "limit": MAX_TRACE_RECORDS}
    page = FoundRecords()
    for _ in range(MAX_REQUESTS):
        page = await _page(api, {**query, "cursor": page.older})
        if page.older is None or page.records:
            break
    return page.records[::-1]
