"""Measures how long one thread blocks all others."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.loop_turns import unhurried_s

_BEAT_S = 0.0005


class GilHolds:
    """CPU time of the process between two iterations of a thread that only waits."""

    def __init__(self) -> None:
        self._holds = [0.0]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    @property
    def longest(self) -> float:
        """The longest time, scaled to an idle machine."""
        return unhurried_s(max(self._holds))

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _beat(self) -> None:
        last = time.process_time()
        while not self._is_over.is_set():
            time.sleep(_BEAT_S)
            now = time.process_time()
            self._holds.append(now - last)
            last = now


@contextmanager
def measured_holds() -> Iterator[GilHolds]:
    holds = GilHolds()
    holds.start()
    try:
        yield holds
    finally:
        holds.end()
