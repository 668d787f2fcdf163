"""Execution of calls with an idempotency key: the first is made, repetitions return its outcome."""

import asyncio
from collections.abc import Awaitable, Callable

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    MAY_BE_DONE,
    IdempotencyConflict,
    OutcomeUnknown,
    ProxyError,
    ShuttingDown,
    StateUnavailable,
    error_from_json,
)
from mcp_tools_proxy.domain.outcome import Failed, Ok, Outcome
from mcp_tools_proxy.storage.idempotency.records import (
    Record,
    RecordKey,
    RecordState,
    RecordStore,
    record_key,
    request_digest,
)
from mcp_tools_proxy.system.backoff import Backoff
from mcp_tools_proxy.telemetry.metrics import Metrics

_OK, _INPUT_REQUIRED, _FAILED = b"+", b"?", b"-"


def encode_result(outcome: Ok) -> bytes:
    """Encode a result for storage."""
    return (_INPUT_REQUIRED if outcome.input_required else _OK) + outcome.result_json


def encode_error(error: ProxyError) -> bytes:
    """Encode the caller-visible part of an error for storage."""
    return _FAILED + to_json(error.as_json)


def decode_outcome(kept: bytes, spec: ComponentSpec) -> Outcome:
    """Return a stored outcome as a replay, which uses no tokens.

    Raises OutcomeUnknown if a newer version of the gateway stored it.
    """
    kind, content = kept[:1], kept[1:]
    if kind in (_OK, _INPUT_REQUIRED):
        return Ok(
            spec=spec,
            result=from_json(content),
            result_json=content,
            tokens=0,
            input_required=kind == _INPUT_REQUIRED,
            replayed=True,
        )
    error = error_from_json(from_json(content)) if kind == _FAILED else None
    if error is None:
        raise OutcomeUnknown(
            "this call was made before, by a newer version of this gateway whose record cannot be "
            "read here; send it again with the same key once all replicas are upgraded"
        )
    return Failed(error=error, replayed=True, spec=spec)


PAUSES = Backoff(first_s=0.05, longest_s=1.0)
"""Pauses between checks of a call made by another replica."""

Work = Callable[[], Awaitable[Ok]]


class _CallsUnderKey:
    """Calls of this process with one key; they access the record one at a time.

    ``record`` is the result of the previous call, so waiting calls do not query the store: 2,000 of
    them sent 2,000 queries, each waking all others, for 7 s.
    """

    __slots__ = ("_turn", "count", "record", "request")

    def __init__(self) -> None:
        self.count = 0
        self.request: bytes | None = None
        """Digest of the running call, here or elsewhere, or None."""
        self.record: Record | None = None
        self._turn: asyncio.Lock | None = None

    async def wait_turn(self) -> None:
        """Wait for the previous calls; the lock is created by the second call."""
        if self._turn is None:
            self._turn = asyncio.Lock()
            await self._turn.acquire()  # on behalf of the first call
        await self._turn.acquire()

    def end_turn(self) -> None:
        """Release the turn to the next call."""
        if self._turn is not None:
            self._turn.release()


class IdempotentCalls:
    """Makes each call with a key once and keeps its outcome.

    Calls of this process with the same key wait for each other. Calls of other replicas are
    detected in the store and polled, paced by ``sleep``.
    """

    def __init__(
        self,
        store: RecordStore,
        metrics: Metrics,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._first_calls = metrics.idempotent_calls.labels("first")
        self._sleep = sleep
        self._under_key: dict[RecordKey, _CallsUnderKey] = {}

    async def call(
        self, call: Call, idempotency_key: str, spec: ComponentSpec, work: Work
    ) -> Outcome:
        """Return the outcome of ``work``, or of the earlier call with this key.

        Raises the errors of ``work``; before any work also IdempotencyConflict, OutcomeUnknown and
        StateUnavailable.
        """
        key, request = record_key(call, idempotency_key), request_digest(call, spec)
        try:
            outcome = await self._in_turn(key, request, spec, work)
        except (IdempotencyConflict, OutcomeUnknown, StateUnavailable) as error:
            self._metrics.idempotent_calls.labels(error.code).inc()
            raise
        if outcome.replayed:
            self._metrics.idempotent_calls.labels("replayed").inc()
        return outcome

    async def _in_turn(
        self, key: RecordKey, request: bytes, spec: ComponentSpec, work: Work
    ) -> Outcome:
        """Return the outcome of the call after waiting for earlier calls with the key."""
        calls = self._under_key.get(key)
        is_first = calls is None
        if calls is None:
            calls = self._under_key[key] = _CallsUnderKey()
        elif calls.request is not None:
            _check_same(calls.request, request)
        calls.count += 1
        try:
            if not is_first:
                await calls.wait_turn()
            try:
                record = calls.record or await self._store.claim(key, request)
                if record.state is RecordState.RUNNING:
                    record = await self._wait_for_replica(key, request, record, calls)
                if record.state is RecordState.CLAIMED:
                    return await self._make(key, request, spec, work, calls)
                calls.record = record
            finally:
                calls.end_turn()
        finally:
            calls.count -= 1
            if not calls.count:
                del self._under_key[key]
        return _outcome_of(record, request, spec)

    async def _wait_for_replica(
        self, key: RecordKey, request: bytes, record: Record, calls: _CallsUnderKey
    ) -> Record:
        """Return the record of a key after another replica's call has ended."""
        calls.request = record.request
        attempts = 0
        try:
            while record.state is RecordState.RUNNING:
                _check_same(record.request, request)
                await self._sleep(PAUSES.pause_s(attempts))
                attempts += 1
                record = await self._store.claim(key, request)
        finally:
            calls.request = None
        return record

    async def _make(
        self,
        key: RecordKey,
        request: bytes,
        spec: ComponentSpec,
        work: Work,
        calls: _CallsUnderKey,
    ) -> Ok:
        """Execute the call and save its outcome.

        A call that was interrupted or hit a defect may have been executed. Its outcome is marked as
        unknown unless the tool is idempotent.
        """
        calls.request = request
        self._first_calls.inc()
        kept: bytes | None = None
        is_free = spec.idempotent
        try:
            outcome = await work()
            kept = encode_result(outcome)
        except ProxyError as error:
            if error.is_outcome:
                kept = encode_error(error)
            elif not isinstance(error, ShuttingDown):
                is_free = True
            raise
        finally:
            calls.request = None
            if kept is not None:
                is_kept = await self._store.keep(key, kept)
                if calls.count > 1:
                    calls.record = _record_of(request, kept if is_kept else None)
            elif is_free:
                await self._store.release(key)
            else:
                self._store.mark_unknown(key)
        return outcome


def _record_of(request: bytes, outcome: bytes | None) -> Record:
    if outcome is None:
        return Record(RecordState.UNKNOWN, request)
    return Record(RecordState.DONE, request, outcome)


def _outcome_of(record: Record, request: bytes, spec: ComponentSpec) -> Outcome:
    """Return the outcome in a record. Raises IdempotencyConflict, OutcomeUnknown."""
    _check_same(record.request, request)
    if record.state is RecordState.UNKNOWN:
        raise OutcomeUnknown(
            "this call was sent before, and its outcome is not known; " + MAY_BE_DONE,
            reason="the call was cut off, or its replica stopped, before the outcome was recorded",
        )
    return decode_outcome(record.outcome, spec)


def _check_same(kept: bytes, request: bytes) -> None:
    if kept != request:
        raise IdempotencyConflict(
            "this idempotency key was already used for another tool, with other arguments, or by a "
            "caller with other roles, documents or JWT claims; use a new key for this call"
        )
