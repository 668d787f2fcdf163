"""Rows of a command: a table on a terminal, lines with tabs for a program that reads them."""

from collections.abc import Sequence

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

LEAST_WIDTH = 6
"""Columns of the terminal that a column of the table keeps, where its cells are that long."""


def whole(header: str, *, right: bool = False) -> Column:
    """Make a column whose cells stay on one line: what people copy, or read as one thing."""
    return Column(header, no_wrap=True, justify="right" if right else "left")


def folded(header: str) -> Column:
    """Make a column whose cells go on in the next line where there is no room."""
    return Column(header, overflow="fold")


def is_terminal() -> bool:
    """Say whether a person reads the output."""
    return Console().is_terminal


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows to stdout; nothing of a cell is lost, however narrow the terminal is.

    A table that is too wide even when folded is printed wider, and the terminal breaks its lines.
    When the output is no terminal there is no header.
    """
    console = Console()
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(row))
        return
    table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.width = max(console.width, _least_width(columns, rows))
    console.print(table, crop=False)


def _least_width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    total = len(columns)  # one space behind each
    for number, column in enumerate(columns):
        width = max(cell_len(str(column.header)), *(cell_len(row[number]) for row in rows), 0)
        total += width if column.no_wrap else min(width, LEAST_WIDTH)
    return total
