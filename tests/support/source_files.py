"""The repository files read by house tests."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def source_files(*folders: str, suffixes: frozenset[str] = frozenset({".py"})) -> Iterator[Path]:
    """Yield the files in these folders with one of the suffixes, in order.

    ``node_modules``, installed by ``make test-interop``, is skipped because it has Python files.
    """
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and "node_modules" not in path.parts:
                yield path
