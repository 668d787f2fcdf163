"""Worker process that checks arguments, one request after the other.

Started by ``check_processes``. A request is a line with three sizes, followed by a schema,
arguments and the paths of completed arguments as JSON. The response is a line of JSON: null or the
error.
"""

import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.system.confinement import confine_parser
from mcp_tools_proxy.wire.json_schema.validator import BrokenSchema, compile_json

CPU_S = 1.0
"""CPU seconds per check."""

REGEX_STEPS = 1_000_000_000
"""Higher than the CPU limit allows."""

MEMORY_BYTES = 512 * 1024 * 1024
"""A schema of 1,000 alternatives copied a text of 300 kB for each of them."""

_NICENESS = 10


def main() -> None:
    """Process requests until stdin ends."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # the kernel's first choice if memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    # schemas and texts are untrusted, and the regex engine is native code
    confine_parser(read=())
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        # the signal kills the process: Python code cannot run while a pattern is matched
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        answer = _answer(*(_read(source, int(size)) for size in line.split()))
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(to_json(answer) + b"\n")
        sink.flush()


def _read(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        sys.exit()
    return data


def _answer(schema: bytes, arguments: bytes, filled_in: bytes) -> object:
    try:
        check = compile_json(schema, REGEX_STEPS)
        paths = [tuple(path) for path in from_json(filled_in)]
        check.check_at_any_cost(from_json(arguments), paths)
    except InvalidArguments as error:
        return {"message": error.message, "details": error.details}
    except BrokenSchema as error:
        return {"message": f"arguments: cannot be checked: {error.reason}", "details": None}
    return None


if __name__ == "__main__":
    main()
