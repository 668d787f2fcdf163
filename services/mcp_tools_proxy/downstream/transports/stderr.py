"""What a stdio server writes to its stderr, in our log: cut, and not more than a log can bear."""

import asyncio

import structlog

from mcp_tools_proxy.downstream.transports.event_stream import LineSplitter

log = structlog.get_logger()

LINE_CHARS = 2000
LINES_PER_SECOND = 20

_CHUNK_BYTES = 64 * 1024


async def log_stderr(reader: asyncio.StreamReader | None, server_id: str) -> None:
    """Log each line as ``server.stderr`` until the end; of a flood, how many were left out."""
    if reader is None:
        return
    clock = asyncio.get_running_loop().time
    lines = LineSplitter(LINE_CHARS * 4)
    window, logged, skipped = clock(), 0, 0
    while chunk := await reader.read(_CHUNK_BYTES):
        for line in lines.feed(chunk):
            if clock() - window >= 1.0:
                window, logged = clock(), 0
            logged += 1
            if logged > LINES_PER_SECOND:
                skipped += 1
                continue
            text = line.data.decode(errors="replace")[:LINE_CHARS]
            if text.strip():
                more = {"skipped_lines": skipped} if skipped else {}
                log.warning("server.stderr", server_id=server_id, line=text, **more)
                skipped = 0
