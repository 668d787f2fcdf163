"""Logs what a stdio server writes to its stderr: lines cut, and their rate limited."""

import asyncio
import re
from collections.abc import Callable
from typing import Literal

import structlog

from mcp_tools_proxy.downstream.connection import ServerOutput
from mcp_tools_proxy.downstream.mcp_client.http.sse_parser import Line, LineSplitter

log = structlog.get_logger()

LINE_CHARS = 2000
LINES_PER_SECOND = 20

_CHUNK_BYTES = 8 * 1024  # one-byte lines of 64 KiB at once took 65 ms

_PREFIX_CHARS = 200
"""A level further back is a word of the message."""

Level = Literal["debug", "info", "warning", "error"]

_LEVELS: dict[str, Level] = {
    **dict.fromkeys(("trace", "debug", "10", "20"), "debug"),
    **dict.fromkeys(("info", "notice", "30"), "info"),
    **dict.fromkeys(("warn", "warning", "40"), "warning"),
    **dict.fromkeys(("err", "error", "critical", "crit", "fatal", "panic", "50", "60"), "error"),
}
"""By the word in lower case; the numbers are those of pino."""

_WORDS = "trace|debug|info|notice|warning|warn|error|err|critical|crit|fatal|panic"
_LEVEL = re.compile(
    rf"""["']?\b(?i:level|lvl|levelname|severity)["']?\s*[=:]\s*["']?(?P<key>(?i:{_WORDS})\b|[1-6]0\b)
    |(?:^|\s)[\[(<](?P<brackets>(?i:{_WORDS}))[\])>]
    |^\W*(?P<first>(?i:{_WORDS}))\s*:
    |(?<![A-Za-z0-9_])(?P<capitals>{_WORDS.upper()})(?![A-Za-z0-9_])""",
    re.VERBOSE,
)
"""``level=warn``, ``"level":"warn"``, ``[warn]``, ``warn: …``, and WARN anywhere in the prefix."""


def level_of(line: str) -> Level:
    """Return the level that a server gave a line, ``info`` where it gave none."""
    found = _LEVEL.search(line[:_PREFIX_CHARS])
    word = None if found is None else found[found.lastgroup or 0]
    return _LEVELS.get((word or "").lower(), "info")


async def log_stderr(
    reader: asyncio.StreamReader | None,
    server_id: str,
    output: ServerOutput,
    on_end: Callable[[], None],
) -> None:
    """Log each line as ``server.stderr`` until the end; of a flood, how many were skipped.

    ``output`` gets every line.
    """
    lines = LineSplitter(LINE_CHARS * 4)
    limited_log = _RateLimitedLog(server_id, output)
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

    def __init__(self, server_id: str, output: ServerOutput) -> None:
        self._server_id = server_id
        self._output = output
        self._clock = asyncio.get_running_loop().time
        self._second = self._clock()
        self._logged = 0
        self._skipped = 0

    def write(self, line: Line) -> None:
        text = line.data.decode(errors="replace")[:LINE_CHARS]
        if not text.strip():
            return
        self._output.add(text)
        if self._clock() - self._second >= 1.0:
            self._second, self._logged = self._clock(), 0
        if self._logged == LINES_PER_SECOND:
            self._skipped += 1
            return
        self._logged += 1
        more = {"skipped_lines": self._skipped} if self._skipped else {}
        self._skipped = 0
        write = getattr(log, level_of(text))
        write("server.stderr", server_id=self._server_id, line=text, **more)
