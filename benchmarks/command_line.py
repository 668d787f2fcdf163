"""What the command lines of the benchmarks have in common."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence


def check_names(
    parser: argparse.ArgumentParser, names: Sequence[str], known: Sequence[str]
) -> None:
    """End the program with a message if a name is not known."""
    if unknown := set(names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")


def run(main: Callable[[], int]) -> None:
    """Run a program; a signal that ends it stops what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
