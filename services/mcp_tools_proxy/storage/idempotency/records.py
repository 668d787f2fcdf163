"""Records of calls with an idempotency key: what a store promises, and the one in this process.

Of the records in memory no other process knows, and they end with it.
"""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import NamedTuple, NoReturn

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.policy.tenant_share import has_share

MAX_OUTCOME_BYTES = 262_144 + 1
"""The largest outcome that is kept: 256 kB of JSON, and a byte before it that tells its kind."""


class RecordKey(NamedTuple):
    """The key of one record: a caller and its idempotency key, as SHA-256."""

    tenant_id: str
    digest: bytes


class RecordState(Enum):
    """What has become of the call that a record is about."""

    CLAIMED = "claimed"
    """There was no record, and now there is: whoever claimed the key makes the call."""
    RUNNING = "running"
    """The call was begun, and whoever makes it is there."""
    DONE = "done"
    """The outcome is known."""
    UNKNOWN = "unknown"
    """The outcome is not known, and never will be."""


class Record(NamedTuple):
    """What a claim found. ``request`` is the digest of the call, see ``request_digest``."""

    state: RecordState
    request: bytes = b""
    outcome: bytes = b""


class RecordStore(ABC):
    """Keeps records for ``idempotency_ttl_s`` after the outcome of their call is known.

    A record is never dropped before, whatever the room: an outcome that has none is replaced by
    the state UNKNOWN. Whoever got CLAIMED calls exactly one of the other methods afterwards.
    """

    @abstractmethod
    async def claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, or create it. Raises StateUnavailable."""

    @abstractmethod
    async def keep(self, key: RecordKey, outcome: bytes) -> bool:
        """Keep the outcome of a claimed key; return False if it is not known from now on."""

    @abstractmethod
    async def release(self, key: RecordKey) -> None:
        """Delete the record of a claimed key: nothing was sent or run."""

    @abstractmethod
    def mark_unknown(self, key: RecordKey) -> None:
        """Keep that the outcome of a claimed key is not known, as soon as that can be written."""

    @abstractmethod
    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store, for readiness."""

    async def connect(self) -> None:  # noqa: B027 - memory has nothing to connect to
        """Connect before the first call, if that takes little time."""

    async def run(self) -> None:
        """Do what has to be done in the background, until cancelled."""
        await asyncio.Event().wait()

    async def close(self) -> None:  # noqa: B027 - as above
        """Write what is due, and close connections."""


def record_key(call: Call, idempotency_key: str) -> RecordKey:
    """Return the key of a call's record: the same caller is the same tenant, user and agent.

    A round that brings the input which its server required is a call of its own, by the state that
    it brings: so what came before the input is not done twice either. An operator who stands in for
    a caller has keys of his own, or would be answered with what the user's call was.
    """
    caller, brought = call.caller, call.input_responses
    state = None if brought is None else brought.state or ""
    whole = (caller.tenant_id, caller.user_id, caller.agent, idempotency_key, state)
    operator = () if caller.stand_in is None else ("operator", *caller.token_log_fields.values())
    digest = _digest(ascii(whole + operator).encode())  # a third of the time of JSON
    return RecordKey(sys.intern(caller.tenant_id), digest)  # one text for all records of a tenant


def request_digest(call: Call, spec: ComponentSpec) -> bytes:
    """Return the SHA-256 of a call's tool, arguments and rights: of canonical JSON.

    Keys are sorted, and 1.0 is 1, as in RFC 8785: what passes a program in JavaScript changes so.
    The tool is named as its server names it, so each spelling of its name is the same. ``call`` has
    the arguments that are filled in. Roles and bound documents belong to it: another caller of the
    same tenant, user and agent was answered with what only a wider one may read. So do the claims
    of a JWT that is exchanged for the server's token.
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
    return _digest(to_json(_canonical(whole)))


def _canonical(value: object) -> object:
    if isinstance(value, str):  # most are
        return value
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(content: bytes) -> bytes:
    return sha256(content).digest()


class UnusableRecordStore(RecordStore):
    """Refuses every call with an idempotency key; ``problem`` is what the operator should set.

    ``is_wanted``: a setting asks for a store, so readiness is degraded.
    """

    def __init__(self, problem: str, *, is_wanted: bool) -> None:
        self._problem = problem
        self._is_wanted = is_wanted

    def readiness(self) -> Mapping[str, object]:
        """Return the state of the store, for readiness."""
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
        """Raise: no key is ever claimed."""
        raise NotImplementedError(key, outcome)

    async def release(self, key: RecordKey) -> NoReturn:
        """Raise: no key is ever claimed."""
        raise NotImplementedError(key)

    def mark_unknown(self, key: RecordKey) -> NoReturn:
        """Raise: no key is ever claimed."""
        raise NotImplementedError(key)


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


class MemoryRecordStore(RecordStore):
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

    async def run(self) -> None:
        """Free the memory of records whose time is over, until cancelled."""
        while True:
            await asyncio.sleep(DROP_S)
            self.drop_ended()

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
