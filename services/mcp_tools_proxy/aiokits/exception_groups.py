"""Letting an exception leave a task group as itself."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def first_cause() -> Iterator[None]:
    """Let an exception leave a task group as itself, not in the group's wrapping."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
