"""The one place that audit records go through: to the log, and to the audit file or to memory."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from mcp_tools_proxy.audit.audit_file import AuditFile
from mcp_tools_proxy.audit.record_feed import RecordFeed
from mcp_tools_proxy.audit.record_search import parse_record
from mcp_tools_proxy.domain.audit.rule_source import SETTINGS, RuleSource
from mcp_tools_proxy.domain.errors import AuditUnavailable
from mcp_tools_proxy.telemetry.log_lines import RenderedLine, line_of, timestamp, to_ascii_json

RECORDS_ARE_REQUIRED = RuleSource(SETTINGS, "MCP_PROXY_AUDIT_REQUIRED")

MAX_RECENT = 1000
"""Records that are kept in memory where there is no audit file."""


class AuditTrail:
    """Records every attempt: each record is a log line, and a line of ``file`` if there is one.

    Without a file the newest MAX_RECENT records of this process are kept in memory. Records of
    unauthenticated requests have a place of their own, ``unauthenticated_file`` or as many records
    in memory: a flood without a token rotated ten files away in six minutes.
    """

    def __init__(
        self, file: AuditFile | None = None, unauthenticated_file: AuditFile | None = None
    ) -> None:
        self.file = file
        self.unauthenticated_file = unauthenticated_file or file
        self._recent = {False: _RecentRecords(), True: _RecentRecords()}
        self._feeds: list[RecordFeed] = []
        self._log = structlog.get_logger().bind()  # bound once: the lazy proxy binds for each line

    def open(self) -> None:
        """Open the file, if there is one and it is not open. Blocks. Raises AuditFileUnusable."""
        for file in self._files:
            file.open()

    def close(self) -> None:
        """Write what is queued for the file, and close it. Blocks."""
        for file in self._files:
            file.close()

    @property
    def lost(self) -> int:
        """Records that were lost because the queue of their file was full."""
        return sum(file.lost for file in self._files)

    @property
    def failure(self) -> str | None:
        """Why a file cannot be written now; None while all can."""
        return next((it.failure for it in self._files if it.failure is not None), None)

    @property
    def _files(self) -> list[AuditFile]:
        files = dict.fromkeys((self.file, self.unauthenticated_file))
        return [file for file in files if file is not None]

    def reserve(self) -> bool:
        """Reserve the place of a call's record; return whether its record has a place of its own.

        Raises AuditUnavailable where records are required and this one could not be kept.
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
        unauthenticated: bool = False,
    ) -> None:
        """Record one attempt; ``level`` is a logger's method, ``reserved`` as ``reserve`` said."""
        line = line_of(timestamp(), level, event, payload, trace_id)
        text = RenderedLine(to_ascii_json(line))
        getattr(self._log, level)(text)
        file = self.unauthenticated_file if unauthenticated else self.file
        if file is None:
            self._recent[unauthenticated].add(text)
        else:
            file.put(line, reserved=reserved)
        if self._feeds:
            for feed in self._feeds:
                feed.offer(line, text)

    @property
    def followers(self) -> int:
        """How many feeds get records now."""
        return len(self._feeds)

    def followers_of(self, tenant_id: str) -> int:
        """Return how many of them operators of one tenant read."""
        return sum(feed.reader_tenant == tenant_id for feed in self._feeds)

    @contextmanager
    def following(self, feed: RecordFeed) -> Iterator[None]:
        """Offer each record to ``feed`` inside the block, before it has a number or a signature.

        The file's own records, of what happened to it, are not offered.
        """
        self._feeds.append(feed)
        try:
            yield
        finally:
            self._feeds.remove(feed)

    def recent(self, *, unauthenticated: bool = False) -> list[dict[str, object]]:
        """Return the records in memory, the oldest first, each with its number under ``seq``."""
        return self._recent[unauthenticated].numbered()


class _RecentRecords:
    """The newest records of one kind, as JSON: dicts would occupy the collector."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_RECENT)
        self._added = 0

    def add(self, line: str) -> None:
        """Add a record; the oldest one may go for it."""
        self._added += 1
        self._lines.append(line)

    def numbered(self) -> list[dict[str, object]]:
        """Return the records, the oldest first, each with its number under ``seq``."""
        first = self._added - len(self._lines) + 1
        records = ((seq, parse_record(line)) for seq, line in enumerate(self._lines, first))
        return [{**record, "seq": seq} for seq, record in records if record is not None]


def _unavailable(file: AuditFile) -> AuditUnavailable:
    error = AuditUnavailable(
        "no record of the call can be kept now, and this gateway makes no call without one; try "
        "again later",
        reason=file.failure or "the queue of the audit file is full",
    )
    error.rule = RECORDS_ARE_REQUIRED
    return error
