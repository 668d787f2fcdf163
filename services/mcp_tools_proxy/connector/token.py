"""The token that the backend is shown: a fixed one, or what a file holds now."""

import asyncio
from pathlib import Path
from typing import Protocol

import structlog

from mcp_tools_proxy.filesystem.watch import RETRY_S, changes
from mcp_tools_proxy.wire.identifiers import is_visible_ascii

MAX_BYTES = 64 * 1024
"""What is larger holds no token."""

log = structlog.get_logger()


class Token(Protocol):
    """Where the token is."""

    @property
    def problem(self) -> str | None:
        """Why there was none when it was read last."""
        ...

    async def read(self) -> str | None:
        """Give it; None while there is none."""
        ...

    async def wait_for_change(self, refused: str | None) -> None:
        """Wait until there is one, and another than ``refused``."""
        ...


class FixedToken:
    """A token of the settings: there will be no other before a restart."""

    problem: str | None = None

    def __init__(self, token: str) -> None:
        self._token = token

    async def read(self) -> str | None:
        """Give it."""
        return self._token

    async def wait_for_change(self, refused: str | None) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


class FileToken:
    """A token in a file, which others change; white space around it does not count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problem: str | None = None
        """Why the file held none when it was read last; it does not name the file."""
        self._is_readable = True

    def __repr__(self) -> str:
        return f"<FileToken problem={self.problem!r}>"

    async def read(self) -> str | None:
        """Read the file; None when it holds no token, which is logged once."""
        token, problem = await asyncio.to_thread(self._load)
        if problem is not None and problem != self.problem:
            log.error("remote.token_unreadable", source=str(self._path), reason=problem)
        self.problem = problem
        return token

    async def wait_for_change(self, refused: str | None) -> None:
        """Follow the file until it holds another token: it is read at once, and on each change.

        While it cannot be read it is read again and again: it does not change when it can be.
        """
        async for _ in changes(self._path):
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
