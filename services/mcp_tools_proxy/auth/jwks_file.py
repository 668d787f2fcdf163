"""The key set of a file, which is followed."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from mcp_tools_proxy.auth.jwks import InvalidJwks, KeySet, parse_key_set, state_of
from mcp_tools_proxy.filesystem.watch import follow

log = structlog.get_logger()


class JwksFile:
    """Holds the keys of ``path``. Call ``load`` once, then keep ``run`` running.

    What is no key set leaves the keys as they were; without the file there are none.
    """

    def __init__(self, path: Path, allowed: Collection[str]) -> None:
        self._path = path
        self._allowed = allowed
        self._failure: str | None = None
        self.keys = KeySet()

    def __repr__(self) -> str:
        return f"<JwksFile {self.keys.count} keys, failure={self._failure!r}>"

    async def load(self) -> None:
        """Bring the keys to what the file says now."""
        await self._look()

    async def run(self) -> None:
        """Follow the file until cancelled; a change is in force within a second."""
        await follow(self._path, self._look)

    async def refresh(self) -> None:
        """Do nothing: the file is followed anyway."""

    def state(self) -> Mapping[str, object]:
        """Tell how the keys are, for readiness."""
        return state_of(self.keys, source="file", failure=self._failure)

    async def _look(self) -> bool:
        """Read the file; return whether that is all until it changes."""
        try:
            keys = parse_key_set(await asyncio.to_thread(self._path.read_bytes), self._allowed)
        except InvalidJwks as error:
            self._apply(self.keys, str(error))
        except OSError as error:
            self._apply(KeySet(), f"cannot be read: {error.strerror}")
            return isinstance(error, FileNotFoundError)
        else:
            self._apply(keys, None)
        return True

    def _apply(self, keys: KeySet, failure: str | None) -> None:
        if failure is not None and failure != self._failure:
            log.error("jwks.failed", source=str(self._path), reason=failure)
        self._failure = failure
        if keys.by_kid.keys() != self.keys.by_kid.keys():
            log.info("jwks.loaded", keys=keys.count, unusable=keys.unusable)
        self.keys = keys
