"""The audit records of all worker processes of the service."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.telemetry.audit.audit_paths import (
    audits_matching,
    has_records,
    unauthenticated_path,
)
from mcp_tools_proxy.telemetry.audit.audit_trail import MAX_WAITING, AuditTrail, RecordFeed
from mcp_tools_proxy.telemetry.audit.record_search import (
    MAX_SCANNED_BYTES,
    Record,
    RecordFilter,
    RecordPage,
    newest_of,
    search_audits,
    search_files,
    search_memory,
)

POLL_S = 0.25
"""Seconds between two questions for the new records of other workers."""

FORGET_S = 10.0
"""Seconds without a question until a worker drops the feed of another one's reader."""

RECENT, FOLLOW = "recent_records", "follow"
"""Questions to the other workers."""


class RecentQuery(NamedTuple):
    """The question RECENT."""

    wanted: RecordFilter
    cursor: int | None
    limit: int
    unauthenticated: bool


class FollowQuery(NamedTuple):
    """The question FOLLOW: for the records since the last one with this id."""

    reader_id: str
    wanted: RecordFilter


class NewRecords(NamedTuple):
    """The answer to FOLLOW; ``before`` counts the records of earlier answers of this feed."""

    feed_id: str
    before: int
    lines: Sequence[str]
    lost: int


class ServiceAudit:
    """Finds and follows the records of all workers.

    ``files`` is the path of all workers' audit files, with ``{worker}``; None for another path. One
    process without such a path has one audit, in which records are searched by their numbers.
    """

    def __init__(self, trail: AuditTrail, workers: WorkerGroup, files: Path | None) -> None:
        self.trail = trail
        self.has_others = workers.size > 1
        self._workers = workers
        self._files = files
        self._followed: dict[str, _OthersFeed] = {}
        workers.on(RECENT, self._recent)
        workers.on(FOLLOW, self._new_records)

    async def page(
        self,
        wanted: RecordFilter,
        *,
        cursor: int | None,
        limit: int,
        unauthenticated: bool = False,
        max_bytes: int = MAX_SCANNED_BYTES,
    ) -> RecordPage:
        """Return a page of records, newest first; see ``search_audits``. Raises OSError.

        A worker that does not answer in time is left out of searches in memory.
        """
        trail = self.trail
        file = trail.unauthenticated_file if unauthenticated else trail.file
        if file is None and self.has_others:
            query = RecentQuery(wanted, cursor, limit + 1, unauthenticated)
            answers = [self._recent(query), *await self._workers.ask(RECENT, query)]
            found = [record for records in answers for record in records]
            return newest_of(found, wanted, cursor=cursor, limit=limit)
        if file is None:
            recent = trail.recent(unauthenticated=unauthenticated)
            return search_memory(recent, wanted, cursor=cursor, limit=limit)
        if self._files is None:
            return await asyncio.to_thread(
                search_files, file.path, wanted, cursor=cursor, limit=limit, max_bytes=max_bytes
            )
        return await asyncio.to_thread(
            lambda: search_audits(
                self._audits(unauthenticated=unauthenticated),
                wanted,
                cursor=cursor,
                limit=limit,
                max_bytes=max_bytes,
            )
        )

    def _audits(self, *, unauthenticated: bool) -> Mapping[Path, int]:
        """Return the audits of all workers, also of earlier ones, with their numbers."""
        found = {} if self._files is None else audits_matching(self._files)
        own = self.trail.file
        if own is not None:
            found = {own.path: self._workers.number, **found}
        return {
            unauthenticated_path(path) if unauthenticated else path: worker
            for path, worker in found.items()
            if worker == self._workers.number or has_records(path)
        }

    def _recent(self, query: RecentQuery) -> Sequence[Record]:
        """Return the newest records in this worker's memory."""
        worker = self._workers.number
        recent = self.trail.recent(unauthenticated=query.unauthenticated)
        numbered = ({**record, "worker": worker} for record in recent)
        page = newest_of(numbered, query.wanted, cursor=query.cursor, limit=query.limit)
        return page.records

    async def follow_others(self, feed: RecordFeed) -> None:
        """Add the new records of the other workers to a feed until cancelled."""
        query, counts = FollowQuery(token_hex(8), feed.wanted), dict[str, int]()
        while True:
            lost, most = 0, 0
            for new in await self._workers.ask(FOLLOW, query):
                if len(new.lines) > feed.room:
                    await asyncio.sleep(POLL_S)
                for line in new.lines:
                    feed.add(line)
                # an answer that came too late is missing
                lost += new.lost + new.before - counts.get(new.feed_id, 0)
                counts[new.feed_id] = new.before + len(new.lines) + new.lost
                most = max(most, len(new.lines))
            if lost:
                feed.lose(lost)
            await asyncio.sleep(0 if most > MAX_WAITING // 2 else POLL_S)

    def _new_records(self, query: FollowQuery) -> NewRecords:
        """Return the records since the last question; the first one opens the feed."""
        reader_id, wanted = query
        followed = self._followed.get(reader_id)
        if followed is None:
            feed = RecordFeed(wanted, is_for_other_worker=True)
            followed = self._followed[reader_id] = _OthersFeed(feed)
            self.trail.add_feed(feed)
        else:
            followed.timer.cancel()
        followed.timer = asyncio.get_running_loop().call_later(FORGET_S, self._forget, reader_id)
        return followed.take()

    def _forget(self, reader_id: str) -> None:
        self.trail.remove_feed(self._followed.pop(reader_id).feed)


class _OthersFeed:
    """The feed for a reader that is connected to another worker."""

    def __init__(self, feed: RecordFeed) -> None:
        self.feed = feed
        self.timer: asyncio.TimerHandle
        self._id = token_hex(8)
        self._taken = 0

    def take(self) -> NewRecords:
        """Return the records since the last time."""
        lines, lost = self.feed.take()
        before, self._taken = self._taken, self._taken + len(lines) + lost
        return NewRecords(self._id, before, lines, lost)
