"""A key set in a file, which is read again at each change."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from mcp_tools_proxy.auth.jwks import InvalidJwks, KeySet, parse_key_set, state_of
from mcp_tools_proxy.filesystem.watch import follow

log = structlog.get_logger()


class JwksFile:
    """Holds the keys of ``path``. Call ``load`` once, then keep ``run`` running.

    A file that is no key set leaves the previous keys in place; a file that is missing or cannot be
    read leaves none.
    """

    def __init__(self, path: Path, allowed: Collection[str]) -> None:
        self._path = path
        self._allowed = allowed
        self._failure: str | None = None
        self.keys = KeySet()

    def __repr__(self) -> str:
        return f"<JwksFile {self.keys.count} keys, failure={self._failure!r}>"

    async def load(self) -> None:
        """Read the keys of the file."""
        await self._read()

    async def run(self) -> None:
        """Watch the file until cancelled; a change is active within a second."""
        await follow(self._path, self._read)

    async def refresh(self) -> None:
        """Do nothing: the file is watched anyway."""

    def state(self) -> Mapping[str, object]:
        """Return the state of the keys, for readiness."""
        return state_of(self.keys, source="file", failure=self._failure)

    async def _read(self) -> bool:
        """Read the file; return False if it should be read again although it does not change."""
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
