"""Stands for a store where none can be used as the gateway is set."""

import asyncio
from collections.abc import Mapping
from typing import NoReturn

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.idempotency.records import Record, RecordKey


class UnusableRecordStore:
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

    async def connect(self) -> None:
        """Connect to nothing."""

    async def run(self) -> None:
        """Wait until cancelled: nothing is due."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Close nothing."""

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
