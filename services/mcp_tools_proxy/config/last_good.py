"""Keeps the last good version of a file active, and reports the problems of the present one."""

from collections.abc import Callable
from typing import TypeVar

from mcp_tools_proxy.config.loader import PresetMissing
from mcp_tools_proxy.domain.configuration import (
    InvalidConfig,
    Problem,
)
from mcp_tools_proxy.wire.text import QUOTE_CHARS

T = TypeVar("T")
LAST_GOOD = "its last valid version"


def load_or_keep_last_good(
    load: Callable[[], T], before: T | None, *, absent: T, file: str
) -> tuple[T | None, tuple[Problem, ...]]:
    """Load an optional file; return its active version, and the problems of the present file.

    ``before`` is the last good version, None if there was none. ``load`` must return ``absent``,
    this very object, if the file does not exist.
    """
    try:
        found = load()
    except InvalidConfig as error:
        return before, error.problems
    if found is absent and before is not None and before is not absent:
        message = "was removed; its last valid content stays active"
        return before, (Problem(file=file, path="$", message=message),)
    return found, ()


def preset_file(preset_id: str) -> str:
    """Return the file name of a preset, cut short, since the id may be any text."""
    return f"preset_{preset_id[:QUOTE_CHARS]}.json"


def inactive_preset_problems(
    preset_id: str, error: PresetMissing | InvalidConfig, instead: str
) -> tuple[Problem, ...]:
    """Return the problems of a preset whose file cannot be used, and what is active ``instead``."""
    reason = "has problems" if isinstance(error, InvalidConfig) else str(error)
    first = Problem(file=preset_file(preset_id), path="$", message=f"{reason}; {instead} is active")
    return (first, *(error.problems if isinstance(error, InvalidConfig) else ()))
