"""Records of calls in this process: no other one knows them, and they end with it."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.idempotency.records import (
    MAX_OUTCOME_BYTES,
    Record,
    RecordKey,
    RecordState,
)
from mcp_tools_proxy.policy.tenant_share import has_share

RECORD_BYTES = 700
"""What a record takes without its outcome: key, digests, entries of tables (measured: 640)."""

DROP_S = 10.0
"""Seconds between two checks for records whose time is over."""

_CLAIMED = Record(RecordState.CLAIMED)


@dataclass(slots=True)
class _Kept:
    request: bytes
    state: RecordState = RecordState.RUNNING
    outcome: bytes = b""


class MemoryRecordStore:
    """Keeps records in memory: ``max_bytes`` of all tenants, shared fairly.

    A record that finds no room is refused before its call is made. ``clock`` returns seconds.
    """

    def __init__(
        self, *, ttl_s: float, max_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.used_bytes = 0
        self._ttl_s = ttl_s
        self._max_bytes = max_bytes
        self._clock = clock
        self._records: dict[RecordKey, _Kept] = {}
        self._ends: deque[tuple[float, RecordKey]] = deque()
        """When each record ends whose call is over, the first to end first."""
        self._of_tenant: dict[str, int] = {}

    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, or create it. Raises StateUnavailable if it has no room."""
        if self._ends and self._ends[0][0] <= self._clock():
            self.drop_ended()
        kept = self._records.get(key)
        if kept is not None:
            return Record(kept.state, kept.request, kept.outcome)
        if not self._fits(key, RECORD_BYTES):
            raise StateUnavailable(
                "this request did nothing: the store of calls with an idempotency key is full; "
                "try again later",
                reason="no room",
            )
        self._records[key] = _Kept(request)
        self._count(key, RECORD_BYTES)
        return _CLAIMED

    async def keep(self, key: RecordKey, outcome: bytes) -> bool:
        """Keep an outcome, or that it is not known if it is too large or finds no room."""
        if len(outcome) > MAX_OUTCOME_BYTES or not self._fits(key, len(outcome)):
            self.mark_unknown(key)
            return False
        kept = self._records[key]
        kept.state, kept.outcome = RecordState.DONE, outcome
        self._count(key, len(outcome))
        self._ends.append((self._clock() + self._ttl_s, key))
        return True

    async def release(self, key: RecordKey) -> None:
        """Delete the record of a claimed key."""
        self._drop(key)

    def mark_unknown(self, key: RecordKey) -> None:
        """Keep that the outcome of a claimed key is not known."""
        self._records[key].state = RecordState.UNKNOWN
        self._ends.append((self._clock() + self._ttl_s, key))

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store, for readiness."""
        return {"status": "ok", "store": "memory", "kept": len(self._records)}

    async def connect(self) -> None:
        """Connect to nothing: memory is there."""

    async def run(self) -> None:
        """Free the memory of records whose time is over, until cancelled."""
        while True:
            await asyncio.sleep(DROP_S)
            self.drop_ended()

    async def close(self) -> None:
        """Close nothing: memory ends with its process."""

    def drop_ended(self) -> None:
        """Drop the records whose time is over."""
        now = self._clock()
        while self._ends and self._ends[0][0] <= now:
            self._drop(self._ends.popleft()[1])

    def _fits(self, key: RecordKey, size: int) -> bool:
        of_tenant = self._of_tenant.get(key.tenant_id, 0)
        return has_share(size, of_tenant=of_tenant, used=self.used_bytes, limit=self._max_bytes)

    def _count(self, key: RecordKey, size: int) -> None:
        self.used_bytes += size
        of_tenant = self._of_tenant.pop(key.tenant_id, 0) + size
        if of_tenant:  # no entry for a tenant without records: there may be any number of tenants
            self._of_tenant[key.tenant_id] = of_tenant

    def _drop(self, key: RecordKey) -> None:
        kept = self._records.pop(key)
        self._count(key, -RECORD_BYTES - len(kept.outcome))
