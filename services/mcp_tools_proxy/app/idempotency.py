"""Chooses where calls with an idempotency key are kept."""

import asyncio
from collections.abc import Mapping
from typing import NoReturn, Protocol

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.gateway.health import CheckResult
from mcp_tools_proxy.idempotency.memory_store import MemoryRecordStore
from mcp_tools_proxy.idempotency.records import Record, RecordKey, RecordStore
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable


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


class OpenRecordStore(RecordStore, Protocol):
    """A store with what its process does for it."""

    def readiness(self) -> CheckResult:
        """Return the state of the store."""
        ...

    async def connect(self) -> None:
        """Connect before the first call, if that takes little time."""
        ...

    async def run(self) -> None:
        """Do what has to be done in the background, until cancelled."""
        ...

    async def close(self) -> None:
        """Write what is due, and close connections."""
        ...


def build_record_store(settings: Settings) -> OpenRecordStore:
    """Build the store: in Redis where one is set, else in this process.

    Raises ValueError for an unusable URL.
    """
    ttl_s, max_bytes = settings.idempotency_ttl_s, settings.idempotency_bytes
    url = settings.state_url or settings.rate_limit_storage_url
    if url is None:
        return MemoryRecordStore(ttl_s=ttl_s, max_bytes=max_bytes)
    if not settings.state_key:
        return UnusableRecordStore(
            f"{variable('state_key')} is not set, so nothing can be kept in Redis",
            is_wanted=settings.state_url is not None,
        )
    # redis-py and cryptography are slow to import
    from mcp_tools_proxy.encryption.record_cipher import RecordCipher  # noqa: PLC0415
    from mcp_tools_proxy.idempotency import redis_store  # noqa: PLC0415
    from mcp_tools_proxy.idempotency.redis_requests import MAX_CONNECTIONS  # noqa: PLC0415
    from mcp_tools_proxy.redis_client.connection_pool import open_pool  # noqa: PLC0415

    name = variable("rate_limit_storage_url" if settings.state_url is None else "state_url")
    return redis_store.RedisRecordStore(
        open_pool(url.get_secret_value(), max_connections=MAX_CONNECTIONS, variable=name),
        RecordCipher([key.get_secret_value().encode() for key in settings.state_key]),
        variable=name,
        ttl_s=ttl_s,
        max_bytes=max_bytes,
    )
