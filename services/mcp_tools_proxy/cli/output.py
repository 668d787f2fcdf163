"""Prints results as a table on a terminal, as tab-separated lines in a pipe, or as JSON.

Texts come from files, servers and callers. Characters that a terminal would interpret or not
display are escaped only here. Also formats counts.
"""

import json
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mcp_tools_proxy.wire.text import HIDDEN, printable

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

USAGE_ERROR = 2
"""Exit code for unusable options or settings."""

LEAST_WIDTH = 6
"""Minimum width of a folded column, unless its cells are shorter."""


def whole(header: str, *, right: bool = False) -> Column:
    """Create a column without wrapping, for ids and times that users copy."""
    return Column(header, no_wrap=True, justify="right" if right else "left")


def folded(header: str) -> Column:
    """Create a column whose cells wrap."""
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
    """Print the rows to stdout without truncating cells.

    A table that is too wide even when folded is printed wider, and the terminal wraps its lines.
    Without a terminal, the header is omitted.
    """
    console = Console()
    rows = [[printable(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        for row in rows:
            echo("\t".join(row))
        return
    table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.width = max(console.width, _least_width(columns, rows))
    console.print(table, crop=False)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a text to stdout or stderr; line feeds and tabs are kept."""
    lines = ("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
    typer.echo("\n".join(lines), err=err)  # noqa: TID251 - the text is escaped


def fail(message: str, exit_code: int = USAGE_ERROR) -> NoReturn:
    """Print an error as one line, and exit."""
    echo(f"mcp-tools-proxy: {message}", err=True)
    raise typer.Exit(exit_code)


def print_json(value: object, *, indent: int | None = None) -> None:
    """Print JSON to stdout; without ``indent``, on one line."""
    print_json_text(json.dumps(value, ensure_ascii=False, indent=indent))


def print_json_text(text: str) -> None:
    """Print a JSON text to stdout and flush it."""
    text = HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
    if not text.isprintable():
        text = "".join(
            it if it.isprintable() or it == "\n" else json.dumps(it)[1:-1] for it in text
        )
    typer.echo(text)  # noqa: TID251 - the text is escaped


def _least_width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    total = len(columns)  # one space after each
    for number, column in enumerate(columns):
        width = max(cell_len(str(column.header)), *(cell_len(row[number]) for row in rows), 0)
        total += width if column.no_wrap else min(width, LEAST_WIDTH)
    return total
