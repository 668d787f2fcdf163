"""Pauses of threads that work for long."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.00005
"""A thread that never waits has the event loop wait 5 ms for the GIL each time."""


def pause() -> None:
    """Sleep shortly, so that other threads run."""
    time.sleep(_PAUSE_S)


def paced(items: Iterable[T], *, every: int) -> Iterator[T]:
    """Yield items, and pause after so many of them, so that other threads run."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % every == 0:
            pause()
