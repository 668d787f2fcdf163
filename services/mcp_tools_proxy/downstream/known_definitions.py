"""Lists of servers saved in ``cache_dir``, shown after a start until servers connect.

Each entry has one file, which can be removed at any time. Failures (full disk, broken file) are
only logged.
"""

import asyncio
import fnmatch
import os
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

import structlog
from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.discovery import restore
from mcp_tools_proxy.storage.cache_folder import make_private
from mcp_tools_proxy.storage.files import statuses_of, write_atomically

MAX_BYTES = 8 * 1024 * 1024
"""Maximum size of a file: 1,000 tools take 0.7 MB."""

MAX_FILES = 500
"""Maximum number of files; the least recently used go. A changed entry has another file."""

_FAILURES = (OSError, ValueError, TypeError, KeyError, AttributeError)
"""Errors of a full disk, a damaged file, or a foreign file."""

log = structlog.get_logger()


class KnownDefinitions:
    """The definitions in a folder that only this user can write to.

    ``import_sdk`` is awaited before definitions are checked, which would import the SDK while the
    first connection imports it in a thread.
    """

    def __init__(
        self, folder: Path, import_sdk: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self._folder = folder
        self._import_sdk = import_sdk
        self._logged = ""

    async def load(self, config: ServerConfig) -> Snapshot | None:
        """Return the last lists of an entry's server; None if unknown."""
        try:
            found = await asyncio.to_thread(self._read, config)
            if found is None:
                return None
            if self._import_sdk is not None:
                await self._import_sdk()
            return await restore(found["lists"], found["instructions"])
        except _FAILURES as error:
            self._log_failure(config, error)
            return None

    async def save(self, config: ServerConfig, snapshot: Snapshot) -> None:
        """Save the lists of an entry's server."""
        try:
            await asyncio.to_thread(self._write, config, snapshot)
        except _FAILURES as error:
            self._log_failure(config, error)

    def _path(self, config: ServerConfig) -> Path:
        return self._folder / f"server-{fingerprint(config)}.json"

    def _read(self, config: ServerConfig) -> Mapping[str, Any] | None:
        path = self._path(config)
        if not path.exists():
            return None
        make_private(self._folder)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        os.utime(path)
        found: Mapping[str, Any] = from_json(_checked(content))
        return found

    def _write(self, config: ServerConfig, snapshot: Snapshot) -> None:
        lists = {key: list(items.values()) for key, items in snapshot.by_category.items()}
        content = _checked(to_json({"lists": lists, "instructions": snapshot.instructions}))
        path = self._path(config)
        make_private(self._folder)
        if path.exists() and path.stat().st_size == len(content) and path.read_bytes() == content:
            return
        write_atomically(path, content, new_file_mode=0o600)
        files = statuses_of(self._folder)
        used_last = sorted(files, key=lambda name: files[name].st_mtime)
        for unused in fnmatch.filter(used_last, "server-*.json")[:-MAX_FILES]:
            (self._folder / unused).unlink(missing_ok=True)

    def _log_failure(self, config: ServerConfig, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        if reason != self._logged:  # one line for a full disk, not one for each server
            log.warning("server.definitions_not_kept", server_id=config.server_id, reason=reason)
        self._logged = reason


def _checked(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        raise ValueError(f"the definitions are over {MAX_BYTES} bytes")
    return content


def fingerprint(config: ServerConfig) -> str:
    """Return the key of an entry: a hash of all fields that decide the server and the identity.

    Changed limits keep the key.
    """
    identity = (
        config.server_id,
        config.transport,
        config.command,
        config.args,
        config.env,
        config.cwd,
        config.url,
        config.headers,
        config.discovery_caller,
        config.caller_texts,
        config.auth,
    )
    return sha256(to_json(_ordered(identity), fallback=repr)).hexdigest()


def _ordered(value: object) -> object:
    """Return a value as JSON with the same order in every process."""
    match value:
        case Enum():
            return value.value
        case Mapping():
            return sorted([str(key), _ordered(it)] for key, it in value.items())
        case Set():
            return sorted(map(repr, value))
        case tuple() | list():
            return [_ordered(it) for it in value]
        case _ if is_dataclass(value):
            return [[it.name, _ordered(getattr(value, it.name))] for it in fields(value)]
        case _:
            return value
