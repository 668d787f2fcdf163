"""The bearer token for the backend: fixed in the settings, or read from a file at each dial."""

import asyncio
from pathlib import Path
from typing import Protocol

import structlog

from mcp_tools_proxy.filesystem.watch import RETRY_S, file_changes
from mcp_tools_proxy.wire.identifiers import is_visible_ascii

MAX_BYTES = 64 * 1024
"""Largest token file: a larger one is not a token file."""

log = structlog.get_logger()


class Token(Protocol):
    """The source of the token."""

    @property
    def problem(self) -> str | None:
        """Why the last ``read`` returned None."""
        ...

    async def read(self) -> str | None:
        """Return the token, None while there is none."""
        ...

    async def wait_for_change(self, refused: str | None) -> None:
        """Wait until there is a token other than ``refused``."""
        ...


class FixedToken:
    """A token from the settings: it does not change before a restart."""

    problem: str | None = None

    def __init__(self, token: str) -> None:
        self._token = token

    async def read(self) -> str | None:
        """Return the token."""
        return self._token

    async def wait_for_change(self, refused: str | None) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


class FileToken:
    """A token in a file that may change at any time; white space around the token is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problem: str | None = None
        """Why the last ``read`` returned None; without the path, as callers may see this text."""
        self._is_readable = True

    def __repr__(self) -> str:
        return f"<FileToken problem={self.problem!r}>"

    async def read(self) -> str | None:
        """Read the file; return None and log once if it holds no token."""
        token, problem = await asyncio.to_thread(self._load)
        if problem is not None and problem != self.problem:
            log.error("remote.token_unreadable", source=str(self._path), reason=problem)
        self.problem = problem
        return token

    async def wait_for_change(self, refused: str | None) -> None:
        """Read the file at once and after each change, until it holds another token.

        An unreadable file is retried every RETRY_S seconds: a new permission is no change that
        the watcher sees.
        """
        async for _ in file_changes(self._path):
            token = await self.read()
            while not self._is_readable:
                await asyncio.sleep(RETRY_S)
                token = await self.read()
            if token not in (None, refused):
                return

    def _load(self) -> tuple[str | None, str | None]:
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._is_readable = isinstance(error, FileNotFoundError)
            return None, f"cannot be read: {error.strerror}"
        self._is_readable = True
        text = content.strip().decode("ascii", errors="replace")
        if not text or len(content) > MAX_BYTES or not is_visible_ascii(text):
            return None, "should hold one token, printable ASCII without spaces"
        return text, None
