"""Makes calls with an idempotency key: the first is made, every other one has its outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from mcp_tools_proxy.aiokits.backoff import Backoff
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    MAY_BE_DONE,
    IdempotencyConflict,
    OutcomeUnknown,
    ProxyError,
    ShuttingDown,
    StateUnavailable,
)
from mcp_tools_proxy.domain.outcome import Ok, Outcome
from mcp_tools_proxy.idempotency.outcome_codec import decode_outcome, encode_error, encode_result
from mcp_tools_proxy.idempotency.records import (
    Record,
    RecordKey,
    RecordState,
    RecordStore,
    record_key,
    request_digest,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.mcp_protocol import CLIENT_ERROR_CODES

PAUSES = Backoff(first_s=0.05, longest_s=1.0)
"""The pauses between checks of a call that another replica makes."""


class _CallUnderKey:
    """A call under a key that this process makes, or that it waits for."""

    __slots__ = ("_over", "request")

    def __init__(self) -> None:
        self._over: asyncio.Event | None = None
        self.request: bytes | None = None
        """The digest of the call that is made here; None while that is not known."""

    async def wait(self, request: bytes) -> None:
        """Wait for its end. Raises IdempotencyConflict if it is another call than ``request``."""
        if self.request is not None:
            _check_same(self.request, request)
        if self._over is None:
            self._over = asyncio.Event()
        await self._over.wait()

    def end(self) -> None:
        """Wake those who wait."""
        if self._over is not None:
            self._over.set()


class IdempotentCalls:
    """Makes each call with a key once, whoever sends it again, and keeps its outcome.

    Calls of this process under the same key wait for each other; the store tells of those that
    other replicas make. ``sleep`` paces the checks of these.
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
        self._running: dict[RecordKey, _CallUnderKey] = {}

    async def call(
        self,
        call: Call,
        idempotency_key: str,
        spec: ComponentSpec,
        work: Callable[[], Awaitable[Ok]],
    ) -> Outcome:
        """Return the outcome of ``work``, or of the call that was made before under the key.

        Raises what ``work`` raises; IdempotencyConflict, OutcomeUnknown, and StateUnavailable
        before anything is done.
        """
        key, request = record_key(call, idempotency_key), request_digest(call, spec)
        try:
            while (other := self._running.get(key)) is not None:
                await other.wait(request)
            running = self._running[key] = _CallUnderKey()
            try:
                record = await self._store.claim(key, request)
                if record.state is RecordState.RUNNING:
                    record = await self._wait_for_replica(key, request, record)
                if record.state is RecordState.CLAIMED:
                    running.request = request
                    self._first_calls.inc()
                    return await self._make(key, work)
            finally:
                del self._running[key]
                running.end()
            outcome = _outcome_of(record, request, spec)
        except (IdempotencyConflict, OutcomeUnknown, StateUnavailable) as error:
            self._metrics.idempotent_calls.labels(error.code).inc()
            raise
        self._metrics.idempotent_calls.labels("replayed").inc()
        return outcome

    async def _wait_for_replica(self, key: RecordKey, request: bytes, record: Record) -> Record:
        """Return the record of a key once no other replica makes its call."""
        attempts = 0
        while record.state is RecordState.RUNNING:
            _check_same(record.request, request)
            await self._sleep(PAUSES.pause_s(attempts))
            attempts += 1
            record = await self._store.claim(key, request)
        return record

    async def _make(self, key: RecordKey, work: Callable[[], Awaitable[Ok]]) -> Ok:
        """Return what a call returns, and keep how it ended.

        One that was cut off, or met a defect, may have been carried out: that is not known.
        """
        settle: Callable[[], Awaitable[None]] | None = None
        try:
            outcome = await work()
            settle = partial(self._store.keep, key, encode_result(outcome))
        except ShuttingDown:
            raise
        except ProxyError as error:
            if error.is_outcome and not _is_for_client(error):
                settle = partial(self._store.keep, key, encode_error(error))
            else:
                settle = partial(self._store.release, key)
            raise
        finally:
            if settle is None:
                self._store.mark_unknown(key)
            else:
                await settle()
        return outcome


def _outcome_of(record: Record, request: bytes, spec: ComponentSpec) -> Outcome:
    """Return what a record says of a call. Raises IdempotencyConflict, OutcomeUnknown."""
    _check_same(record.request, request)
    if record.state is RecordState.UNKNOWN:
        raise OutcomeUnknown(
            "this call was sent before, and its outcome is not known; " + MAY_BE_DONE
        )
    return decode_outcome(record.outcome, spec)


def _is_for_client(error: ProxyError) -> bool:
    """Return whether a server wants the client to do something, and then to call again."""
    return (error.details or {}).get("code") in CLIENT_ERROR_CODES


def _check_same(kept: bytes, request: bytes) -> None:
    if kept != request:
        raise IdempotencyConflict(
            "this idempotency key was already used for another tool or other arguments; use a new "
            "key for this call"
        )
