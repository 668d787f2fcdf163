"""Secrets in files of one folder, as Kubernetes and Docker mount them."""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.storage.file_watch import state_of

FRESH_S = 0.5

MAX_SECRET_BYTES = 65_536

MAX_CACHED = 1024

MAX_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Secret:
    """The text of a secret, or the problem with its path, for operators."""

    text: str | None
    problem: str = ""

    def __repr__(self) -> str:
        return f"<Secret problem={self.problem!r}>"


@dataclass(frozen=True, slots=True)
class _Cached:
    secret: Secret
    state: object
    until: float


class SecretFiles:
    """The files below ``folder``; changes apply within a second. ``clock`` is in seconds.

    Links within the folder are followed: Kubernetes mounts each file as a link into ``..data``. One
    line break at the end of a file is ignored.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._cache: dict[str, _Cached] = {}

    def __repr__(self) -> str:
        return f"<SecretFiles {len(self._cache)} cached>"

    async def read(self, paths: Collection[str]) -> Mapping[str, Secret]:
        """Return the secrets at these paths, from memory while they are fresh."""
        now = self._clock()
        found: dict[str, Secret] = {}
        stale = []
        for path in paths:
            cached = self._cache.get(path)
            if cached is not None and now < cached.until:
                found[path] = cached.secret
            else:
                stale.append(path)
        if stale:
            found |= await asyncio.to_thread(self._read_all, stale)
        return found

    def _read_all(self, paths: Collection[str]) -> dict[str, Secret]:
        return {path: self._read_again(path) for path in paths}

    def _read_again(self, path: str) -> Secret:
        """Read a file, unless it is unchanged. Blocks."""
        before = self._cache.pop(path, None)
        state = state_of(self._folder / path) if _is_possible(path) else None
        unchanged = before is not None and before.state == state and isinstance(state, tuple)
        secret = before.secret if before is not None and unchanged else self._read(path)
        while len(self._cache) >= MAX_CACHED:
            self._cache.pop(next(iter(self._cache)), None)
        self._cache[path] = _Cached(secret, state, self._clock() + FRESH_S)
        return secret

    def _read(self, path: str) -> Secret:
        if not _is_possible(path):
            return Secret(
                None, f"{path} is not a path of a secret: a name in it is empty or too long"
            )
        folder = os.path.realpath(self._folder)
        file = os.path.realpath(os.path.join(folder, path))
        if os.path.commonpath((folder, file)) != folder:
            return Secret(None, f"the secret {path} is a link out of the folder of secrets")
        try:
            content = _content_of(file)
        except FileNotFoundError:
            return Secret(None, f"secret {path} does not exist")
        except OSError as error:
            return Secret(None, f"the secret {path} cannot be read: {error.strerror}")
        if content is None or len(content) > MAX_SECRET_BYTES:
            return Secret(
                None, f"the secret {path} is not a file of at most {MAX_SECRET_BYTES} bytes"
            )
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return Secret(None, f"the secret {path} is not UTF-8")
        return Secret(text.removesuffix("\n").removesuffix("\r"))


def _is_possible(path: str) -> bool:
    """Return whether a path is valid: ``${caller.roles}`` is empty for a caller without roles."""
    return all(
        segment not in ("", ".", "..") and len(segment.encode()) <= MAX_NAME_BYTES
        for segment in path.split("/")
    )


def _content_of(file: str) -> bytes | None:
    """Return the content of a regular file, up to one byte more than allowed; None for others."""
    with open(file, "rb", opener=_open_at_once) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return None
        return opened.read(MAX_SECRET_BYTES + 1)


def _open_at_once(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NONBLOCK)  # otherwise a pipe waits for its writer
