"""Finds records of the past by the audit of the API, page by page."""

from dataclasses import dataclass

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.calls.call_filter import CallFilter
from mcp_tools_proxy.console.calls.shown_record import ShownRecord

AUDIT = "/internal/mcp/audit"

ROWS = 40
"""Records of a page: one of 60 kB holds them, whatever their names are."""

MAX_REQUESTS = 4
"""Requests of one page: where few records are wanted, the rest is behind its link."""

MANY = 500
"""Records asked for at a time where not all of them are wanted."""

MAX_TRACE_RECORDS = 50
"""Records of one trace that its page shows."""


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Records, the newest first, and where the older ones begin, if there may be any."""

    records: list[ShownRecord]
    older: int | None = None


async def find_records(
    api: ApiClient, wanted: CallFilter, cursor: str | int | None
) -> FoundRecords:
    """Return a page of the records that are wanted. Raises ApiRefused."""
    found: list[ShownRecord] = []
    query = {**wanted.query, "limit": MANY if wanted.is_of_page else ROWS}
    for _ in range(MAX_REQUESTS):
        answer = await api.get(AUDIT, {**query, "cursor": cursor})
        for record in map(ShownRecord, answer["records"]):
            if not wanted.wants(record):
                continue
            if len(found) == ROWS:
                return FoundRecords(found, found[-1].seq)
            found.append(record)
        cursor = answer.get("next_cursor")
        if cursor is None or len(found) == ROWS:
            return FoundRecords(found, answer.get("next_cursor"))
    return FoundRecords(found, answer.get("next_cursor"))


async def find_record(api: ApiClient, tenant_id: str, seq: int, at: str) -> ShownRecord | None:
    """Return the record of a number and a time. Raises ApiRefused.

    Each replica counts its own records, and without an audit file each start counts anew: the
    number alone had found another call.
    """
    query = {"tenant_id": tenant_id, "cursor": seq + 1, "limit": 1}
    for apart in ("false", "true"):  # unauthenticated requests have numbers of their own
        answer = await api.get(AUDIT, {**query, "unauthenticated": apart})
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
