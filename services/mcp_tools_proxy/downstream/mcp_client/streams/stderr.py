"""Logs what a stdio server writes to its stderr: lines cut, and their rate limited."""

import asyncio
from collections.abc import Callable

import structlog

from mcp_tools_proxy.downstream.mcp_client.http.sse_parser import Line, LineSplitter

log = structlog.get_logger()

LINE_CHARS = 2000
LINES_PER_SECOND = 20

_CHUNK_BYTES = 8 * 1024  # one-byte lines of 64 KiB at once took 65 ms


async def log_stderr(
    reader: asyncio.StreamReader | None, server_id: str, on_end: Callable[[], None]
) -> None:
    """Log each line as ``server.stderr`` until the end; of a flood, how many were skipped."""
    lines = LineSplitter(LINE_CHARS * 4)
    limited_log = _RateLimitedLog(server_id)
    while reader is not None and (chunk := await reader.read(_CHUNK_BYTES)):
        for line in lines.feed(chunk):
            limited_log.write(line)
        if len(chunk) == _CHUNK_BYTES:  # more is waiting: other tasks first
            await asyncio.sleep(0)
    for line in lines.end():
        limited_log.write(line)
    on_end()


class _RateLimitedLog:
    """Logs at most LINES_PER_SECOND; the next line after a flood carries ``skipped_lines``."""

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._clock = asyncio.get_running_loop().time
        self._second = self._clock()
        self._logged = 0
        self._skipped = 0

    def write(self, line: Line) -> None:
        text = line.data.decode(errors="replace")[:LINE_CHARS]
        if not text.strip():
            return
        if self._clock() - self._second >= 1.0:
            self._second, self._logged = self._clock(), 0
        if self._logged == LINES_PER_SECOND:
            self._skipped += 1
            return
        self._logged += 1
        more = {"skipped_lines": self._skipped} if self._skipped else {}
        self._skipped = 0
        log.warning("server.stderr", server_id=self._server_id, line=text, **more)
