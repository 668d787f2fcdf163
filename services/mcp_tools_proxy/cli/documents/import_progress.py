"""Shows how far the import of one file is, on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.documents.importers.base import Progress as PageProgress

LINE_S = 10.0
"""Seconds between two lines where stderr is no terminal; a quick import prints none."""


@contextmanager
def page_progress(label: str) -> Iterator[PageProgress]:
    """Show the pages of one file: as a bar on a terminal, else as a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield progress_lines(label, time.monotonic)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
    )
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda pages, total: bar.update(task, completed=pages, total=total)


def progress_lines(label: str, clock: Callable[[], float]) -> PageProgress:
    """Return what prints a line for a page once LINE_S have passed since the line before."""
    printed_at = clock()

    def show(pages: int, total: int) -> None:
        nonlocal printed_at
        if clock() - printed_at >= LINE_S:
            printed_at = clock()
            echo(f"{label}: page {pages} of {total}", err=True)

    return show
