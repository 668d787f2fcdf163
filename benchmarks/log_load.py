"""A process that logs lines like calls do, and measures the CPU of all threads with encoding.

Lines go to stdout through the log's writer thread, directly, or nowhere. The last measures the
tasks themselves and is subtracted.
"""

import argparse
import asyncio
import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import structlog
import uvloop

from benchmarks.paired import SEED
from mcp_tools_proxy.telemetry.call_events import ANSWERED
from mcp_tools_proxy.telemetry.logging import configure_logging, flush_logs

AT_ONCE = (1, 32)
THREAD, DIRECT = "thread", "direct"

_NOWHERE = "nowhere"
_BURST = 32
"""Lines between two pauses, logged concurrently or sequentially."""

_PAUSE_S = 0.01
"""Simulates the line rate of a busy gateway, where the thread sleeps between lines."""

_LINE: Mapping[str, object] = {
    "trace_id": "0123456789abcdef" * 2,
    "code": "OK",
    "toolName": "echo:echo",
    "targetServerId": "echo",
    "downstreamTool": "echo",
    "tenant_id": "bench",
    "user_id": "bench-user",
    "duration_ms": 0.512,
    "arguments": ["text"],
    "result_bytes": 140,
    "tokens": 35,
}
"""Fields of a downstream call's log line besides its event."""

_Log = Callable[[], object]


class _DirectStream(io.TextIOBase):
    """Writes each line with a separate system call."""

    def write(self, text: str) -> int:
        return os.write(1, text.encode())


def _logs() -> Mapping[str, _Log]:
    """Build loggers by destination, with the same processors."""
    configure_logging("info", sys.stdout)
    threaded = structlog.get_logger().bind()
    direct = structlog.wrap_logger(structlog.WriteLogger(_DirectStream())).bind()  # type: ignore[arg-type] # has the required methods
    return {
        THREAD: lambda: threaded.info(ANSWERED, **_LINE),
        DIRECT: lambda: direct.info(ANSWERED, **_LINE),
        _NOWHERE: lambda: None,
    }


async def _measure(log: _Log, lines: int, at_once: int) -> float:
    """Return the CPU per line, including the tasks, in microseconds."""

    async def write() -> None:
        for _ in range(_BURST // at_once):
            await asyncio.sleep(0)
            log()

    began = time.process_time()
    for _ in range(lines // _BURST):
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(write())
        await asyncio.sleep(_PAUSE_S)
    assert flush_logs()
    return (time.process_time() - began) * 1e6 / lines


async def _run(rounds: int, lines: int) -> list[dict[str, float]]:
    """Return the CPU per line in each round, in shuffled order."""
    random, logs = Random(SEED), _logs()  # noqa: S311 - an order, not a secret
    turns = [(name, at_once) for name in logs for at_once in AT_ONCE]
    found = []
    for _ in range(rounds + 1):
        measured = {
            turn: await _measure(logs[turn[0]], lines, turn[1])
            for turn in random.sample(turns, len(turns))
        }
        found.append(
            {
                figure_name(name, at_once): measured[name, at_once] - measured[_NOWHERE, at_once]
                for name, at_once in turns
                if name != _NOWHERE
            }
        )
    return found[1:]  # the first round warms up


def figure_name(name: str, at_once: int) -> str:
    """Return the key of a figure in each round."""
    return f"{name}, {at_once}"


def main() -> None:
    """Measure rounds of lines, and write the figures to ``file``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int)
    parser.add_argument("lines", type=int)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    found = uvloop.run(_run(options.rounds, options.lines))
    options.file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
