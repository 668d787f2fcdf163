"""Unwraps the exception of a task group, so that callers catch it by its own type."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def first_cause() -> Iterator[None]:
    """Replace an exception group by the first exception in it, however deeply nested."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
