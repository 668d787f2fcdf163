"""Tries each dependency of the settings once, for ``check``: in parallel, each with a timeout."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from mcp_tools_proxy.app.optional import build_embeddings_client, build_retrieval_client
from mcp_tools_proxy.app.workers import needs_private_redis, redis_program
from mcp_tools_proxy.documents.chunk_windows import WantedWindow
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError, RetrievalUnavailable
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.request_headers import new_trace_id
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import POSTGRES_SCHEMES, variable
from mcp_tools_proxy.system.failure_reasons import connection_reason, redis_reason
from mcp_tools_proxy.telemetry.metrics import Metrics

ATTEMPT_S = 5.0
"""Seconds for an attempt."""

_UNKNOWN = "check"
"""Tenant, user and document of an attempt; no Retrieval Service has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyCheck:
    """Result for a dependency; ``problem`` is None if it works."""

    name: str
    setting: str
    problem: str | None


Probe = Callable[[], Awaitable[str | None]]
"""Makes an attempt, and returns why it failed, if it did."""


async def check_dependencies(settings: Settings) -> tuple[DependencyCheck, ...]:
    """Try every dependency that the settings name."""
    probes = list(_probes(settings))
    problems = await asyncio.gather(*(_bounded(probe) for _, _, probe in probes))
    return tuple(
        DependencyCheck(name=name, setting=variable(setting), problem=problem)
        for (name, setting, _), problem in zip(probes, problems, strict=True)
    )


def _probes(settings: Settings) -> Iterator[tuple[str, str, Probe]]:
    yield from _store_probes(settings)
    if needs_private_redis(settings):
        yield "private Redis", "workers", _redis_program
    if settings.auth_mode == "jwt" and settings.jwt_jwks_url is not None:
        yield "keys of the issuer", "jwt_jwks_url", lambda: _keys(settings)
    if settings.embeddings_url is not None:
        yield "embeddings service", "embeddings_url", lambda: _embeddings(settings)
    if settings.retrieval_window_url is not None and not settings.windows_are_local:
        yield "Retrieval Service", "retrieval_window_url", lambda: _retrieval(settings)


def _store_probes(settings: Settings) -> Iterator[tuple[str, str, Probe]]:
    for setting, purpose, secret in (
        ("documents_url", "", settings.documents_url),
        ("rate_limit_storage_url", " of limits", settings.rate_limit_storage_url),
        ("state_url", " of state", settings.state_url),
        ("runs_url", " of runs", settings.runs_url),
    ):
        if secret is not None:
            url = secret.get_secret_value()
            if url.startswith(POSTGRES_SCHEMES):
                yield f"PostgreSQL{purpose}", setting, partial(_postgres, url)
            else:
                yield f"Redis{purpose}", setting, partial(_redis, url)


async def _bounded(probe: Probe) -> str | None:
    try:
        async with asyncio.timeout(ATTEMPT_S):
            return await probe()
    except TimeoutError:
        return f"no answer within {ATTEMPT_S:g} s"
    except Exception as error:  # noqa: BLE001 - any failure is a line of the report
        return connection_reason(error) or f"failed: {type(error).__name__}"


async def _postgres(url: str) -> str | None:
    from mcp_tools_proxy.documents.postgres.database import (  # noqa: PLC0415 - slow
        FAILURES,
        connect,
        one_line_of,
    )

    try:
        connection = await connect(url, timeout=ATTEMPT_S)
    except FAILURES as error:
        return connection_reason(error) or one_line_of(error)
    try:
        await connection.fetchval("SELECT 1")
    finally:
        connection.terminate()
    return None


async def _redis(url: str) -> str | None:
    from redis.asyncio import Redis  # noqa: PLC0415 - slow
    from redis.exceptions import RedisError  # noqa: PLC0415

    from mcp_tools_proxy.storage.redis_pool import open_pool  # noqa: PLC0415

    pool = open_pool(url, max_connections=1)
    try:
        await Redis(connection_pool=pool.connections).ping()
    except (RedisError, OSError) as error:
        return redis_reason(error)
    finally:
        await pool.connections.disconnect()
    return None


async def _redis_program() -> str | None:
    try:
        redis_program()
    except ValueError as error:
        return str(error)
    return None


async def _keys(settings: Settings) -> str | None:
    from mcp_tools_proxy.auth.jwks_url import JwksUrl  # noqa: PLC0415 - slow

    keys = JwksUrl(settings.jwt_jwks_url or "", settings.jwt_algorithms)
    await keys.refresh()
    state = keys.state()
    if state["failure"] is not None:
        return str(state["failure"])
    return None if state["keys"] else "it has no usable key"


async def _embeddings(settings: Settings) -> str | None:
    client = build_embeddings_client(settings, Metrics())
    if client is None:
        return "no model is named"
    from mcp_tools_proxy.documents.embeddings.embeddings_client import (  # noqa: PLC0415 - slow
        EmbeddingsFailed,
    )

    try:
        await client.embed_query("check")
    except EmbeddingsFailed as error:
        return error.reason
    finally:
        await client.aclose()
    return None


async def _retrieval(settings: Settings) -> str | None:
    client = build_retrieval_client(settings, Metrics(), None)
    if client is None:
        return None
    try:
        await client.window(
            WantedWindow(
                caller=Caller(tenant_id=_UNKNOWN, user_id=_UNKNOWN),
                doc_id=_UNKNOWN,
                anchor_chunk_id=_UNKNOWN,
                before=0,
                after=0,
                trace_id=new_trace_id(),
            )
        )
    except RetrievalUnavailable as error:
        return client.failure or error.message
    except ProxyError:
        pass  # it answered that the document is unknown
    finally:
        await client.aclose()
    return None
