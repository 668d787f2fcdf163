"""Tables of cases that one test goes through."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def named_row(*row: object) -> Iterator[None]:
    """Name the row of the table in the report of what fails within the block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"Row: {', '.join(map(repr, row))}")
        raise
