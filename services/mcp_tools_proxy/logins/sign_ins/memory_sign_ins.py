"""Unfinished sign-ins of this process: no other replica knows them."""

import time
from collections.abc import Callable

from mcp_tools_proxy.logins.sign_ins.sign_in_store import RecordKind

_Key = tuple[RecordKind, str]


class MemorySignIns:
    """A SignInStore in memory; ``clock`` returns seconds."""

    is_shared = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: dict[_Key, tuple[float, bytes]] = {}

    def __repr__(self) -> str:
        return f"<MemorySignIns {len(self._records)} records>"

    async def add(self, kind: RecordKind, name: str, content: bytes, ttl_s: float) -> bytes | None:
        """Return the record of a name, ``content`` where there was none; None if it is full."""
        self._drop_ended()
        known = self._records.get((kind, name))
        if known is not None:
            return known[1]
        if sum(1 for it, _ in self._records if it is kind) >= kind.limit:
            return None
        self._records[kind, name] = (self._clock() + ttl_s, content)
        return content

    async def replace(self, kind: RecordKind, name: str, content: bytes) -> None:
        """Change a record that is there; its time stays."""
        self._drop_ended()
        if (known := self._records.get((kind, name))) is not None:
            self._records[kind, name] = (known[0], content)

    async def find(self, kind: RecordKind, name: str) -> bytes | None:
        """Return a record, None if there is none, or its time is over."""
        self._drop_ended()
        known = self._records.get((kind, name))
        return None if known is None else known[1]

    async def take(self, kind: RecordKind, name: str) -> bytes | None:
        """Remove a record and return it."""
        self._drop_ended()
        known = self._records.pop((kind, name), None)
        return None if known is None else known[1]

    async def aclose(self) -> None:
        """Forget everything."""
        self._records.clear()

    def _drop_ended(self) -> None:
        now = self._clock()
        ended = [key for key, (until, _) in self._records.items() if until <= now]
        for key in ended:
            del self._records[key]
