"""Progress of the import of a folder: a bar on a terminal, otherwise lines."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from mcp_tools_proxy.cli.output import echo

LINE_S = 10.0
"""Seconds between progress lines if stderr is not a terminal."""


class _Rate(ProgressColumn):
    """The number of files per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once it is known."""
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")


@asynccontextmanager
async def files_progress(total: int) -> AsyncIterator[Callable[[], None]]:
    """Show the progress; yield the function to call after each file.

    On a terminal it is a bar, otherwise a line every LINE_S.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = _ProgressLines(total)
        async with asyncio.TaskGroup() as group:
            printing = group.create_task(lines.run())
            try:
                yield lines.advance
            finally:
                printing.cancel()
        return
    bar = Progress(
        TextColumn("files"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    with bar:
        task = bar.add_task("files", total=total)
        yield lambda: bar.advance(task)


class _ProgressLines:
    """Prints lines with the number of files done, their rate and the time left."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._since = time.monotonic()

    def advance(self) -> None:
        """Count a file."""
        self._done += 1

    async def run(self) -> None:
        """Print lines until cancelled."""
        while True:
            await asyncio.sleep(LINE_S)
            rate = self._done / (time.monotonic() - self._since)
            left_s = (self._total - self._done) / rate if rate else None
            left = "" if left_s is None else f", {timedelta(seconds=round(left_s))} left"
            echo(f"{self._done} of {self._total} files, {rate:.1f}/s{left}", err=True)
