"""Breaks the code on purpose, one break at a time, and reports the breaks that no test notices.

``make breaks`` tries all of them; ``make breaks ONLY=auth`` those of a theme, or with an id that
contains the word.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.breaks.catalogue import Break, choose, load_breaks
from tests.breaks.runner import Verdict, try_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every break was caught, 1 if not, 2 if none was chosen, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    parser.add_argument("only", nargs="*", help="a theme, or a part of an id")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    breaks = choose(load_breaks(), options.only)
    if not breaks:
        parser.error("no break has this theme or id")
    counts: Counter[Verdict] = Counter()

    def report(change: Break, verdict: Verdict) -> None:
        counts[verdict] += 1
        where = f"{change.theme}: {change.id}"
        _print(f"{verdict.value:15}{where:55} {change.problem() or change.what}")

    try:
        with tempfile.TemporaryDirectory(prefix="breaks-") as folder:
            asyncio.run(try_all(breaks, Path(folder), workers=options.workers, report=report))
    except KeyboardInterrupt:
        return 130
    _print(", ".join(f"{number} {verdict.value}" for verdict, number in counts.items()))
    return 0 if counts.keys() == {Verdict.CAUGHT} else 1


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
