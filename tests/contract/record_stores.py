"""Record stores, opened as the gateway opens them, and helpers for their tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.storage.idempotency.records import RecordKey, RecordState, RecordStore
from mcp_tools_proxy.storage.idempotency.redis_store import RedisRecordStore
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from mcp_tools_proxy.storage.redis_pool import open_pool
from mcp_tools_proxy.storage.redis_requests import MAX_CONNECTIONS

REQUEST = b"r" * 32
OTHER_REQUEST = b"o" * 32
OUTCOME = b'+{"text":"of tenant one"}'
SECRET = b"a secret of at least 32 characters"
LIMIT_BYTES = 10_000


def key(name: str = "k", tenant: str = "t") -> RecordKey:
    return RecordKey(tenant, name.encode().ljust(32, b"."))


def redis_store(url: str, secret: bytes = SECRET, **options: Any) -> RedisRecordStore:
    defaults: dict[str, Any] = {
        "variable": "X",
        "ttl_s": 60,
        "max_bytes": LIMIT_BYTES,
        "renew_s": 0.05,
    }
    return RedisRecordStore(
        open_pool(url, max_connections=MAX_CONNECTIONS),
        RecordCipher([secret]),
        **(defaults | options),
    )


@asynccontextmanager
async def opened(store: RecordStore) -> AsyncIterator[RecordStore]:
    await store.connect()
    running = asyncio.ensure_future(store.run())
    try:
        yield store
    finally:
        running.cancel()
        await store.close()


async def settled_state(store: RecordStore, record: RecordKey | None = None) -> RecordState:
    """Claim a key, waiting until no other store holds it and Redis answers."""
    while True:
        with contextlib.suppress(StateUnavailable):
            found = await state(store, record)
            if found is not RecordState.RUNNING:
                return found
        await asyncio.sleep(0.02)


async def state(store: RecordStore, record: RecordKey | None = None) -> RecordState:
    return (await store.claim(record or key(), REQUEST)).state


def is_record(name: bytes) -> bool:
    """Return whether a Redis key belongs to a record."""
    return b":bytes:" not in name and not name.endswith(b":probe")
