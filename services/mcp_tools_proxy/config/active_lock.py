"""The lock that is in force: the last good version of its file, and the file's problems."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from mcp_tools_proxy.config.json_file import parse_json, read_text
from mcp_tools_proxy.config.lock_file import build_lock, render_lock
from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from mcp_tools_proxy.domain.offers.definitions import (
    LOCK_FILE,
    DefinitionsLock,
    DefinitionsMode,
)
from mcp_tools_proxy.filesystem.atomic import write_atomically

_LAST_GOOD = "its last valid version stays active"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveLock:
    """The last good lock, None if there was none, and what is wrong with the present file."""

    lock: DefinitionsLock | None = None
    problems: tuple[Problem, ...] = ()
    digest: bytes = field(default=b"", repr=False, compare=False)
    """The SHA-256 of the text of ``lock``: an unchanged file is not parsed again."""

    @property
    def is_there(self) -> bool:
        """Whether there is a lock, usable or not."""
        return self.lock is not None or bool(self.problems)

    def mode(self, setting: DefinitionsMode | None) -> DefinitionsMode:
        """Return the mode in force: the setting's, else WARN where there is a lock."""
        if setting is not None:
            return setting
        return DefinitionsMode.WARN if self.is_there else DefinitionsMode.OPEN


def load_active_lock(folder: Path, before: ActiveLock) -> ActiveLock:
    """Load the lock, and return the state that follows ``before``. Blocks.

    A file that is broken or removed leaves its last good version in force, so that no mishap
    lets through what was not accepted.
    """
    path = folder / LOCK_FILE
    try:
        text = read_text(path)
        digest = sha256(text.encode()).digest()
        if before.lock is not None and digest == before.digest:
            return replace(before, problems=())
        return ActiveLock(lock=build_lock(parse_json(LOCK_FILE, text)), digest=digest)
    except FileNotFoundError:
        if path.is_symlink():
            return replace(before, problems=(_problem("is a broken symbolic link"),))
        if before.lock is None:
            return ActiveLock()
        return replace(before, problems=(_problem(f"was removed; {_LAST_GOOD}"),))
    except InvalidConfig as error:
        return replace(before, problems=error.problems)


def save_lock(
    folder: Path,
    lock: DefinitionsLock,
    *,
    write: Callable[[Path, bytes], object] = write_atomically,
) -> None:
    """Write the lock. Raises ConfigReadOnly. Blocks."""
    try:
        write(folder / LOCK_FILE, render_lock(lock).encode())
    except OSError as error:
        raise ConfigReadOnly(
            f"{LOCK_FILE} cannot be written ({error.strerror}); make the configuration folder "
            "writable, or run mcp-tools-proxy check --lock where it is writable and copy the "
            "file here"
        ) from error


def _problem(message: str) -> Problem:
    return Problem(file=LOCK_FILE, path="$", message=message)
