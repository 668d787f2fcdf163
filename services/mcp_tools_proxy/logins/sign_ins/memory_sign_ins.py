"""Unfinished sign-ins of this process: no other replica knows them."""

import time
from collections.abc import Callable
from typing import NamedTuple

from mcp_tools_proxy.logins.sign_ins.sign_in_store import RecordKind

_Key = tuple[RecordKind, str]


class _Record(NamedTuple):
    until: float
    content: bytes
    share: str


class MemorySignIns:
    """A SignInStore in memory; ``clock`` returns seconds."""

    is_shared = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: dict[_Key, _Record] = {}

    def __repr__(self) -> str:
        return f"<MemorySignIns {len(self._records)} records>"

    async def add(
        self, kind: RecordKind, name: str, content: bytes, ttl_s: float, *, share: str = ""
    ) -> bytes | None:
        """Return the record of a name, ``content`` where there was none; None if it is full."""
        self._drop_ended()
        known = self._records.get((kind, name))
        if known is not None:
            return known.content
        shares = [record.share for (it, _), record in self._records.items() if it is kind]
        free = kind.limit - len(shares)
        if free <= (shares.count(share) if share else 0):
            return None
        self._records[kind, name] = _Record(self._clock() + ttl_s, content, share)
        return content

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change a record that is there; its time stays."""
        self._drop_ended()
        if (known := self._records.get((kind, name))) is not None:
            self._records[kind, name] = known._replace(content=content)

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record, None if there is none, or its time is over."""
        self._drop_ended()
        known = self._records.get((kind, name))
        return None if known is None else known.content

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove a record and return it."""
        self._drop_ended()
        known = self._records.pop((kind, name), None)
        return None if known is None else known.content

    async def aclose(self) -> None:
        """Forget everything."""
        self._records.clear()

    def _drop_ended(self) -> None:
        now = self._clock()
        ended = [key for key, record in self._records.items() if record.until <= now]
        for key in ended:
            del self._records[key]
