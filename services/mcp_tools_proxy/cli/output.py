"""Prints what a command found: as a table on a terminal, as lines with tabs in a pipe, or as JSON.

Also counts things in words.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")]

LEAST_WIDTH = 6
"""Least width of a folded column, unless its cells are shorter."""


def whole(header: str, *, right: bool = False) -> Column:
    """Create a column whose cells stay on one line, for ids and times, which people copy."""
    return Column(header, no_wrap=True, justify="right" if right else "left")


def folded(header: str) -> Column:
    """Create a column whose cells wrap to the next line."""
    return Column(header, overflow="fold")


def counted(number: int, noun: str) -> str:
    """Return number and noun, in the plural unless the number is 1."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun of a report."""
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return Console().is_terminal


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows to stdout; cells are never cut, however narrow the terminal is.

    A table that is too wide even when folded is printed wider, and the terminal breaks its lines.
    Without a terminal there is no header.
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


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object to stdout, as one line.

    What a terminal would interpret or cannot display is escaped: texts are from files and servers.
    """
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    typer.echo(text)


def _least_width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    total = len(columns)  # one space after each
    for number, column in enumerate(columns):
        width = max(cell_len(str(column.header)), *(cell_len(row[number]) for row in rows), 0)
        total += width if column.no_wrap else min(width, LEAST_WIDTH)
    return total
