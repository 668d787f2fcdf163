"""Worker process that imports one file from stdin to stdout, within limits.

Started by ``import_process``; isolates the service from attacks on parsers.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from mcp_tools_proxy.system.confinement import confine_parser

MEMORY_BYTES = 1024 * 1024 * 1024
CPU_S = 120
"""Without OCR."""
FILE_BYTES = 1024 * 1024
OPEN_FILES = 32
PROCESSES = 0
"""Limits of the process. A parser needs no files except its libraries and starts no processes,
which could outlive it. Without seccomp, root is exempt from the last limit."""

STARTED = b"started\n"
"""The first line of the output; without it, stderr has the reason."""

OCR_DATA = ("/usr/share/tesseract-ocr", "/usr/share/tessdata")


def main() -> None:
    """Read a request and a file; write progress, then the document or the failure."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    request = json.loads(source.readline())  # written by the gateway; the file follows
    unread = os.open(os.devnull, os.O_WRONLY)
    limit_process(math.ceil(request["cpu_s"]))
    os.dup2(unread, sys.stderr.fileno())
    sink.write(STARTED)
    sink.flush()
    answer: Sequence[bytes]
    try:
        answer = _answer(request, source, sink)
    except MemoryError:  # until its traceback is gone, not even a list can be made
        answer = _NO_MEMORY
    except RecursionError:
        answer = _TOO_DEEP
    sink.writelines(answer)
    sink.flush()


def limit_process(cpu_s: int = CPU_S) -> None:
    """Limit memory, CPU and files, and become the first victim if memory runs out.

    Then confine the process to reading its libraries, without network. It ends with the service,
    even if that is killed: an import would otherwise run on for up to its CPU limit.
    """
    if sys.platform == "linux":
        from mcp_tools_proxy.system.system_calls import end_with_parent  # noqa: PLC0415

        end_with_parent()
    # over the soft CPU limit, a process gets SIGXCPU; SIGKILL could also mean memory
    limits = {
        resource.RLIMIT_AS: (MEMORY_BYTES, MEMORY_BYTES),
        resource.RLIMIT_CPU: (cpu_s, cpu_s + 1),
        resource.RLIMIT_FSIZE: (FILE_BYTES, FILE_BYTES),
        resource.RLIMIT_NOFILE: (OPEN_FILES, OPEN_FILES),
        resource.RLIMIT_NPROC: (PROCESSES, PROCESSES),
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, most in limits.items():
        with suppress(ValueError, OSError):  # a lower limit is set, or unsupported
            resource.setrlimit(kind, most)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    confine_parser(read=OCR_DATA)


_NO_MEMORY = (b'failed "needs more memory than an import may use: cut it into parts"\n',)
_TOO_DEEP = (b'failed "is nested too deeply to be read: save it with fewer levels"\n',)


def _answer(request: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> list[bytes]:
    # after the limits are set
    from mcp_tools_proxy.documents.document_file import InvalidDocument, dump_document  # noqa: PLC0415
    from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions  # noqa: PLC0415
    from mcp_tools_proxy.documents.importers.kinds import import_data  # noqa: PLC0415

    def show(done: int, total: int) -> None:
        sink.write(b"progress %d %d\n" % (done, total))
        sink.flush()

    sent: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in request["options"].items()
    }
    options = ImportOptions(**sent)
    try:
        document = dump_document(import_data(source.read(), str(request["suffix"]), options, show))
    except (ImportFailed, InvalidDocument) as error:
        return [b"failed " + json.dumps(error.reason).encode() + b"\n"]
    return [b"document %d\n" % len(document), document]


if __name__ == "__main__":
    main()
