"""``mcp-tools-proxy stdio`` as a process, with one message per line."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.support.bounds import BOUND_S
from tests.support.fork_server import PROGRAM
from tests.support.program import UNLIMITED
from tests.support.program_launch import Process, launch

Json = dict[str, Any]


ARGUMENTS = ["stdio", "--tenant", "tenant_1"]
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class StdioProgram:
    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self.printed: list[bytes] = []
        self._log = log
        self._lines: Queue[bytes] = Queue()
        self._answers: dict[object, Json] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def request(self, id_: int, method: str, **params: object) -> None:
        body = {"method": method, "params": {**params, "_meta": MODERN}}
        self.send(json.dumps({"jsonrpc": "2.0", "id": id_, **body}).encode() + b"\n")

    def call(self, id_: int, tool: str, **arguments: object) -> None:
        self.request(id_, "tools/call", name=tool, arguments=arguments)

    def answer(self, id_: int) -> Json:
        while id_ not in self._answers:
            try:
                message: Json = json.loads(self._lines.get(timeout=BOUND_S))
            except Empty:
                raise AssertionError(f"no answer to {id_}; the log:\n{self.log()}") from None
            self._answers[message.get("id")] = message
        return self._answers[id_]

    def close_stdin(self) -> int:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; return the exit code."""
        code = self.process.wait(BOUND_S)
        self._reader.join(BOUND_S)
        return code

    def stop(self, sig: int = signal.SIGTERM) -> int:
        self.process.send_signal(sig)
        return self.ended()

    def stop_listening(self) -> None:
        """Close the other end of its stdout."""
        null = os.open(os.devnull, os.O_RDONLY)
        assert self.process.stdout is not None
        os.dup2(null, self.process.stdout.fileno())
        os.close(null)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            self._lines.put(line)


@contextmanager
def stdio_program(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *options: str,
    stdin: int = subprocess.PIPE,
    stderr: int | None = None,
    fresh: bool = False,
    module: str = PROGRAM,
) -> Iterator[StdioProgram]:
    """Start the program in ``folder``; end it afterwards.

    ``options`` extend its command line. ``stderr`` is a descriptor for its stderr instead of a log
    file. ``fresh`` and ``module`` are those of ``launch``."""
    log = folder / "stdio.log"
    with log.open("wb") as err:
        streams = (stdin, subprocess.PIPE, err.fileno() if stderr is None else stderr)
        settings = {**UNLIMITED, **(environment or {})}
        process = launch(
            [*ARGUMENTS, *options], folder, settings, streams=streams, fresh=fresh, module=module
        )
    program = StdioProgram(process, log)
    try:
        yield program
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(BOUND_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
