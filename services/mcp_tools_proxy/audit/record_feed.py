"""The records as they come, for one reader who may be slow."""

import asyncio
from collections import deque
from typing import NamedTuple

from mcp_tools_proxy.audit.record_search import Record, RecordFilter

MAX_WAITING = 256
"""Records that wait for a reader; those that come then are lost to it."""


class LostRecords(NamedTuple):
    """How many records the reader has lost in this place."""

    records: int


class RecordFeed:
    """The records that match, in their order; for the event loop that records.

    What finds the queue full is lost, and so is what comes until the reader has taken all of it: so
    the loss has one place among the records.
    """

    def __init__(self, wanted: RecordFilter, *, reader_tenant: str | None = None) -> None:
        """``reader_tenant`` is the tenant of whoever reads, None for an operator of all."""
        self.reader_tenant = reader_tenant
        self.lost = 0
        """All records that were lost."""
        self._wanted = wanted
        self._waiting: deque[str] = deque()
        self._lost_here = 0
        self._changed = asyncio.Event()

    def offer(self, record: Record, line: str) -> None:
        """Queue a record, of which ``line`` is the JSON, if it matches. Never blocks."""
        if not self._wanted.matches(record):
            return
        if self._lost_here or len(self._waiting) >= MAX_WAITING:
            self._lost_here += 1
            self.lost += 1
        else:
            self._waiting.append(line)
        self._changed.set()

    async def next(self) -> str | LostRecords:
        """Wait for the next record, as JSON; or for how many were lost."""
        while True:
            if self._waiting:
                return self._waiting.popleft()
            if self._lost_here:
                lost, self._lost_here = LostRecords(self._lost_here), 0
                return lost
            self._changed.clear()
            await self._changed.wait()
