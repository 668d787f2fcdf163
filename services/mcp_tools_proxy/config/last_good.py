"""The last good version of a file stays active; what is wrong with the present one is reported."""

from collections.abc import Callable
from typing import TypeVar

from mcp_tools_proxy.config.loader import (
    PresetMissing,
)
from mcp_tools_proxy.domain.configuration import (
    InvalidConfig,
    Problem,
)
from mcp_tools_proxy.wire.text import QUOTE_CHARS

T = TypeVar("T")
LAST_GOOD = "its last good version"


def load_or_keep_last_good(
    load: Callable[[], T], before: T | None, *, absent: T, file: str
) -> tuple[T | None, tuple[Problem, ...]]:
    """Read a file that need not be there; ``before`` is its last good version, None without one.

    ``load`` gives ``absent``, that very object, when there is no file.
    """
    try:
        found = load()
    except InvalidConfig as error:
        return before, error.problems
    if found is absent and before is not None and before is not absent:
        message = "is gone; what it said last stays in force"
        return before, (Problem(file=file, path="$", message=message),)
    return found, ()


def preset_file(preset_id: str) -> str:
    """Name the file of a preset, whatever its id."""
    return f"preset_{preset_id[:QUOTE_CHARS]}.json"


def inactive_preset_problems(
    preset_id: str, error: PresetMissing | InvalidConfig, instead: str
) -> tuple[Problem, ...]:
    """Say that a preset is not in force as its file is now, and what is ``instead``."""
    reason = "has problems" if isinstance(error, InvalidConfig) else str(error)
    first = Problem(
        file=preset_file(preset_id), path="$", message=f"{reason}; {instead} is in force"
    )
    return (first, *(error.problems if isinstance(error, InvalidConfig) else ()))
