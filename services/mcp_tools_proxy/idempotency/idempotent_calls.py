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

    __slots__ = ("over", "request")

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.request: bytes | None = None
        """The digest of the call that is made here; None while that is not known."""


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
        try:
            outcome = await self._call_in_turn(
                record_key(call, idempotency_key), request_digest(call, spec), spec, work
            )
        except (IdempotencyConflict, OutcomeUnknown, StateUnavailable) as error:
            self._metrics.idempotent_calls.labels(error.code).inc()
            raise
        if outcome.replayed:
            self._metrics.idempotent_calls.labels("replayed").inc()
        return outcome

    async def _call_in_turn(
        self,
        key: RecordKey,
        request: bytes,
        spec: ComponentSpec,
        work: Callable[[], Awaitable[Ok]],
    ) -> Outcome:
        """Wait until no other call of this process has the key, and use it."""
        while (other := self._running.get(key)) is not None:
            if other.request is not None:
                _check_same(other.request, request)
            await other.over.wait()
        running = self._running[key] = _CallUnderKey()
        try:
            record = await self._claim(key, request)
            if record.state is RecordState.CLAIMED:
                running.request = request
                self._metrics.idempotent_calls.labels("first").inc()
                return await self._make(key, work)
            if record.state is RecordState.UNKNOWN:
                raise OutcomeUnknown(
                    "this call was sent before, and how it ended is not known; " + MAY_BE_DONE
                )
            return decode_outcome(record.outcome, spec)
        finally:
            del self._running[key]
            running.over.set()

    async def _claim(self, key: RecordKey, request: bytes) -> Record:
        """Return the record of a key, once no other replica makes its call."""
        attempts = 0
        while True:
            record = await self._store.claim(key, request)
            if record.state is RecordState.CLAIMED:
                return record
            _check_same(record.request, request)
            if record.state is not RecordState.RUNNING:
                return record
            await self._sleep(PAUSES.pause_s(attempts))
            attempts += 1

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


def _is_for_client(error: ProxyError) -> bool:
    """Return whether a server wants the client to do something, and then to call again."""
    return (error.details or {}).get("code") in CLIENT_ERROR_CODES


def _check_same(kept: bytes, request: bytes) -> None:
    if kept != request:
        raise IdempotencyConflict(
            "this idempotency key was used for another tool or other arguments; "
            "a call that is another one needs a key of its own"
        )
