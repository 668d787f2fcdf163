"""Executes the conformance suite's client tasks, a few in parallel."""

import json
import shlex
import socketserver
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Semaphore, Thread

from tests.interop import conformance_hook
from tests.interop.conformance_client import Task, perform

AT_ONCE = 6
"""The suite starts all clients together; they mostly wait."""


@dataclass
class Tasks:
    """Results of the tasks by scenario; ``command`` is the client for the suite to start."""

    folder: Path
    command: str = ""
    steps: dict[str, list[str]] = field(default_factory=dict)
    succeeded: set[str] = field(default_factory=set)
    """Scenarios whose server could be used in the end."""
    broken: dict[str, str] = field(default_factory=dict)
    """Tracebacks of failed steps."""

    def __post_init__(self) -> None:
        self._free = Semaphore(AT_ONCE)

    def perform(self, task: Task) -> dict[str, object]:
        """Execute a task in a separate folder; return its client's output and exit code."""
        steps = self.steps.setdefault(task.scenario, [])
        folder = self.folder / task.scenario.replace("/", "_")
        with self._free:
            folder.mkdir()
            try:
                if perform(task, folder, steps):
                    self.succeeded.add(task.scenario)
            except Exception:  # noqa: BLE001 - the test that asserts "broken" fails
                self.broken[task.scenario] = traceback.format_exc()
        return {"steps": steps, "code": int(task.scenario in self.broken)}


@contextmanager
def performing(folder: Path) -> Iterator[Tasks]:
    """Execute tasks until the context ends."""
    tasks = Tasks(folder)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            report = tasks.perform(Task(**json.loads(self.rfile.readline())))
            self.wfile.write(json.dumps(report).encode() + b"\n")

    with _Server(("127.0.0.1", 0), Handler) as server:
        words = [sys.executable, "-S", "-E", conformance_hook.__file__]
        tasks.command = shlex.join([*words, str(server.server_address[1])])
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield tasks
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    request_queue_size = 100
