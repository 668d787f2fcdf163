"""Finds records of the past by the audit of the API, page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.calls.call_filter import CallFilter
from mcp_tools_proxy.console.calls.shown_record import ShownRecord

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
        answer = await api.get(AUDIT, {**query, "cursor": cursor})
        for record in map(ShownRecord, answer["records"]):
            if not wanted.wants(record):
                continue
            if len(found) == rows:
                return FoundRecords(found, found[-1].seq)
            found.append(record)
        cursor = answer.get("next_cursor")
        if cursor is None or len(found) == rows:
            return FoundRecords(found, answer.get("next_cursor"))
    return FoundRecords(found, answer.get("next_cursor"))


async def find_record(api: ApiClient, tenant_id: str, seq: int, at: str) -> ShownRecord | None:
    """Return the record of a number and a time. Raises ApiRefused.

    Each replica counts its own records, and without an audit file each start counts anew: the
    number alone had found another call.
    """
    query = {"tenant_id": tenant_id, "cursor": seq + 1, "limit": 1}
    for more in _AUDITS:  # unauthenticated requests have numbers of their own
        answer = await api.get(AUDIT, {**query, **more})
        for record in map(ShownRecord, answer["records"]):
            if (record.seq, record.at) == (seq, at):
                return record
    return None


async def find_trace(api: ApiClient, tenant_id: str, trace_id: str) -> list[ShownRecord]:
    """Return the newest records of a trace, the oldest of them first. Raises ApiRefused."""
    query = {"tenant_id": tenant_id, "trace_id": trace_id, "limit": MAX_TRACE_RECORDS}
    found: list[ShownRecord] = []
    cursor = None
    for _ in range(MAX_REQUESTS):
        answer = await api.get(AUDIT, {**query, "cursor": cursor})
        found += map(ShownRecord, answer["records"])
        cursor = answer.get("next_cursor")
        if cursor is None or found:
            break
    return found[::-1]
