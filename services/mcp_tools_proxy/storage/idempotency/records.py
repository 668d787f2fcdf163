"""Records of calls with an idempotency key: the interface of stores, and a store in memory."""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import sha256
from typing import NamedTuple, NoReturn

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.tenant_share import has_share
from mcp_tools_proxy.wire.json_digest import json_digest

MAX_OUTCOME_BYTES = 262_144 + 1
"""Maximum outcome size: 256 kB of JSON and one byte for its kind."""


class RecordKey(NamedTuple):
    """A record's key: the tenant, and a SHA-256 of caller and idempotency key."""

    tenant_id: str
    digest: bytes


class RecordState(Enum):
    """The state of a recorded call."""

    CLAIMED = "claimed"
    """The record was created by this claim; the claimant makes the call."""
    RUNNING = "running"
    """The call is running, and the replica that makes it is alive."""
    DONE = "done"
    """The outcome is recorded."""
    UNKNOWN = "unknown"
    """The outcome is lost."""


class Record(NamedTuple):
    """The result of a claim; ``request`` is the digest from ``request_digest``."""

    state: RecordState
    request: bytes = b""
    outcome: bytes = b""


class RecordStore(ABC):
    """Keeps records for ``idempotency_ttl_s`` after the end of their call.

    An outcome without space is replaced by the state UNKNOWN; records are never dropped earlier.
    After CLAIMED, the caller must call exactly one of ``keep``, ``release`` and ``mark_unknown``.
    """

    @abstractmethod
    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, or create it. Raises StateUnavailable."""

    @abstractmethod
    async def keep(self, key: RecordKey, outcome: bytes) -> bool:
        """Save the outcome of a claimed key; return False if the state became UNKNOWN."""

    @abstractmethod
    async def release(self, key: RecordKey) -> None:
        """Delete the record of a claimed key whose call was not made."""

    @abstractmethod
    def mark_unknown(self, key: RecordKey) -> None:
        """Mark the outcome of a claimed key as unknown as soon as this can be written."""

    @abstractmethod
    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""

    async def connect(self) -> None:  # noqa: B027 - not needed in memory
        """Connect before the first call if this is quick."""

    async def run(self) -> None:
        """Run background work until cancelled."""
        await asyncio.Event().wait()

    async def close(self) -> None:  # noqa: B027 - as above
        """Write pending records and close connections."""


def record_key(call: Call, idempotency_key: str) -> RecordKey:
    """Return the key of a call's record: from tenant, user, agent, run and idempotency key.

    With the run, a replay tells a run only what it was told before. Runs without a user belong to
    their token.

    A follow-up with input that the server required has a separate key from its state, so the work
    before the input is not repeated either. Operators acting for a caller have separate keys, so
    that they do not receive the outcome of the user's call.
    """
    caller, brought = call.caller, call.input_responses
    state = None if brought is None else brought.state or ""
    whole = (caller.tenant_id, caller.user_id, caller.agent, idempotency_key, state)
    operator = () if caller.stand_in is None else ("operator", *caller.token_log_fields.values())
    is_user = bool(caller.user_id) and not caller.user_is_unproved
    token = () if is_user else tuple(caller.token_log_fields.values())
    run = () if call.run is None else ("run", call.run.run_id, *token)
    digest = _digest(ascii(whole + operator + run).encode())  # takes a third of the time of JSON
    return RecordKey(sys.intern(caller.tenant_id), digest)  # one string per tenant


def request_digest(call: Call, spec: ComponentSpec) -> bytes:
    """Return the digest of a call's tool, arguments and permissions.

    The tool has its server's name, so spellings are equal. ``call`` has completed
    arguments. Roles and bound documents are included: otherwise callers of the same tenant, user
    and agent received outcomes that only wider permissions may read. JWT claims are included if the
    JWT is exchanged for the server's token.
    """
    brought, caller = call.input_responses, call.caller
    whole: tuple[object, ...] = (spec.name, call.arguments, brought and brought.responses)
    if caller.roles or caller.documents is not None:
        documents = None if caller.documents is None else sorted(caller.documents)
        whole += (sorted(set(caller.roles)), documents)
    if call.sources is not None:
        whole += (call.sources,)
    if spec.exchanges_jwt:
        whole += (caller.jwt_claims,)
    return json_digest(whole)


def _digest(content: bytes) -> bytes:
    return sha256(content).digest()


class UnusableRecordStore(RecordStore):
    """Refuses all calls with an idempotency key; ``problem`` is the operator's next step.

    With ``is_wanted`` a setting requires a store, so readiness is degraded.
    """

    def __init__(self, problem: str, *, is_wanted: bool) -> None:
        self._problem = problem
        self._is_wanted = is_wanted

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        status = "degraded" if self._is_wanted else "ok"
        return {"status": status, "store": "none", "problem": self._problem}

    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Raise StateUnavailable."""
        error = StateUnavailable(
            "this request did nothing: the gateway is not set up for idempotency keys; tell its "
            "operator",
            reason=self._problem,
        )
        error.retryable = False
        raise error

    async def keep(self, key: RecordKey, outcome: bytes) -> NoReturn:
        """Raise, because no key is ever claimed."""
        raise NotImplementedError(key, outcome)

    async def release(self, key: RecordKey) -> NoReturn:
        """Raise, because no key is ever claimed."""
        raise NotImplementedError(key)

    def mark_unknown(self, key: RecordKey) -> NoReturn:
        """Raise, because no key is ever claimed."""
        raise NotImplementedError(key)


RECORD_BYTES = 700
"""Memory of a record without its outcome: key, digests, table entries (measured: 640)."""

DROP_S = 10.0
"""Seconds between two removals of expired records."""

_CLAIMED = Record(RecordState.CLAIMED)


@dataclass(slots=True)
class _Kept:
    request: bytes
    state: RecordState = RecordState.RUNNING
    outcome: bytes = b""


class MemoryRecordStore(RecordStore):
    """Keeps records of this process in memory, with ``max_bytes`` shared fairly among tenants.

    Calls without space for a record are refused before they are made. ``clock`` returns seconds.
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
        """Expiry time and key of each finished record, earliest first."""
        self._of_tenant: dict[str, int] = {}

    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, or create it. Raises StateUnavailable if there is too little
        space.
        """
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
        """Save an outcome; mark it as unknown if it is too large or space is missing."""
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
        """Mark the outcome of a claimed key as unknown."""
        self._records[key].state = RecordState.UNKNOWN
        self._ends.append((self._clock() + self._ttl_s, key))

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store for readiness."""
        return {"status": "ok", "store": "memory", "kept": len(self._records)}

    async def run(self) -> None:
        """Remove expired records until cancelled."""
        while True:
            await asyncio.sleep(DROP_S)
            self.drop_ended()

    def drop_ended(self) -> None:
        """Remove expired records."""
        now = self._clock()
        while self._ends and self._ends[0][0] <= now:
            self._drop(self._ends.popleft()[1])

    def _fits(self, key: RecordKey, size: int) -> bool:
        of_tenant = self._of_tenant.get(key.tenant_id, 0)
        return has_share(size, of_tenant=of_tenant, used=self.used_bytes, limit=self._max_bytes)

    def _count(self, key: RecordKey, size: int) -> None:
        self.used_bytes += size
        of_tenant = self._of_tenant.pop(key.tenant_id, 0) + size
        if of_tenant:  # drop tenants without records: their number is unlimited
            self._of_tenant[key.tenant_id] = of_tenant

    def _drop(self, key: RecordKey) -> None:
        kept = self._records.pop(key)
        self._count(key, -RECORD_BYTES - len(kept.outcome))
