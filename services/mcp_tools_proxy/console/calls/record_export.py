"""Writes records as a file: CSV for a table, JSON for a program."""

import csv
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from io import StringIO

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.calls.call_filter import CallFilter
from mcp_tools_proxy.console.calls.call_search import FoundRecords, find_records
from mcp_tools_proxy.console.calls.shown_record import ShownRecord
from mcp_tools_proxy.wire.text import printable

MAX_RECORDS = 10_000
"""Records of one file, the newest."""

PAGE_RECORDS = 1_000

MAX_PAGES = 50
"""Pages of a file: a filter that few records pass makes each page short."""

_FORMULA_STARTS = tuple("=+-@＝＋－＠")
"""A spreadsheet takes a cell that starts with one of these for a formula, and runs it."""

_PAYLOAD_COLUMNS = (
    "code",
    "check",
    "tenant_id",
    "user_id",
    "agent",
    "doc_id",
    "duration_ms",
    "tokens",
    "token_id",
    "subject",
    "peer",
    "entry",
    "route",
    "reason",
)
COLUMNS = ("time", "event", "name", "server", *_PAYLOAD_COLUMNS, "trace_id", "seq")


async def as_csv(api: ApiClient, wanted: CallFilter, first: FoundRecords) -> AsyncIterator[str]:
    """Yield a line for each record below the names of the columns."""
    yield _lines([COLUMNS])
    async for found in _pages(api, wanted, first):
        yield _lines([[cell(it) for it in _row(record)] for record in found])


async def as_json(api: ApiClient, wanted: CallFilter, first: FoundRecords) -> AsyncIterator[str]:
    """Yield an array of the records as the audit has them."""
    before = "[\n"
    async for found in _pages(api, wanted, first):
        for record in found:
            yield before + json.dumps(record.record)  # hidden characters are seen
            before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def cell(value: object) -> object:
    """Return a value of a table, with hidden characters escaped, that is never a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(text)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _row(record: ShownRecord) -> list[object]:
    payload: Mapping[str, object] = record.payload
    return [
        record.at,
        record.event,
        record.name or record.subject,
        record.server,
        *(payload.get(key) for key in _PAYLOAD_COLUMNS),
        record.trace_id,
        record.seq,
    ]


def _lines(rows: Iterable[Iterable[object]]) -> str:
    written = StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


async def _pages(
    api: ApiClient, wanted: CallFilter, found: FoundRecords
) -> AsyncIterator[list[ShownRecord]]:
    """Yield the records page by page, ``found`` first. Raises ApiRefused."""
    left = MAX_RECORDS
    for _ in range(MAX_PAGES):
        yield found.records[:left]
        left -= len(found.records)
        if found.older is None or left <= 0:
            return
        found = await find_records(api, wanted, found.older, PAGE_RECORDS)
