"""The files of one audit: the one that is written, and those that it was rotated into."""

import re
from collections.abc import Sequence
from pathlib import Path

_SEQ_DIGITS = 12
_ROTATED = re.compile(rf"\.([0-9]{{{_SEQ_DIGITS},18}})")


def rotated_path(path: Path, last_seq: int) -> Path:
    """Return the name for a file that is full; it ends in the number of its last record."""
    return path.with_name(f"{path.name}.{last_seq:0{_SEQ_DIGITS}}")


def rotated_files(path: Path) -> Sequence[Path]:
    """Return the files that ``path`` was rotated into, the oldest first. Raises OSError."""
    found = [
        (int(number[1]), it)
        for it in path.parent.iterdir()
        if it.name.startswith(path.name)
        and (number := _ROTATED.fullmatch(it.name[len(path.name) :]))
    ]
    return [it for _, it in sorted(found)]


def audit_files(path: Path) -> Sequence[Path]:
    """Return every file of an audit, the oldest first. Raises OSError."""
    return [*rotated_files(path), *([path] if path.exists() else [])]
