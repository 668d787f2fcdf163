"""Builds optional parts; imports their packages only then, since that is slow.

Packages of an extra can be missing. Packages for servers are imported with the first server: the
SDK and aiohttp take half a second and 40 MB.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Generic, Never, TypeVar

from anyio.abc import AsyncResource

from mcp_tools_proxy.app.configuration import network_support
from mcp_tools_proxy.documents.open_documents import OpenDocuments
from mcp_tools_proxy.domain.errors import RetrievalNotConfigured
from mcp_tools_proxy.settings.documents import EmbeddingsSettings
from mcp_tools_proxy.settings.observability import read_key, set_sdk_variables
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import POSTGRES_SCHEMES, secret_keys, secret_text, variable
from mcp_tools_proxy.storage.idempotency.records import (
    MemoryRecordStore,
    RecordStore,
    UnusableRecordStore,
)
from mcp_tools_proxy.storage.runs.run_store import (
    MemoryRunStore,
    RunLimits,
    RunStore,
    UnusableRunStore,
)
from mcp_tools_proxy.telemetry.audit.audit_file import AuditFile
from mcp_tools_proxy.telemetry.audit.audit_paths import unauthenticated_path
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.spans import NoTracer, Tracer

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport

    from mcp_tools_proxy.documents.embeddings.embeddings_client import EmbeddingsClient
    from mcp_tools_proxy.documents.embeddings.meaning_search import MeaningSearch
    from mcp_tools_proxy.documents.retrieval_client import RetrievalClient
    from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer

OpenedT = TypeVar("OpenedT", bound=AsyncResource)

_IMPORTING = Lock()
"""Two threads that import packages with circular imports, such as the SDK's, do not wait for each
other: one gets a partially imported module and an ImportError.
"""


class Lazy(AsyncResource, Generic[OpenedT]):
    """An object that is opened on first use; ``build`` imports its module.

    That runs in a thread, as an import would block the event loop, and one at a time.
    """

    def __init__(self, build: Callable[[], OpenedT]) -> None:
        self._build = build
        self._opened: OpenedT | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Lazy {self._opened}>"

    async def open(self) -> OpenedT:
        """Return the object."""
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    self._opened = await asyncio.to_thread(self._build_alone)
        return self._opened

    async def aclose(self) -> None:
        """Close the object, if it was opened."""
        if self._opened is not None:
            await self._opened.aclose()

    def _build_alone(self) -> OpenedT:
        with _IMPORTING:
            return self._build()


def build_dialer(settings: Settings) -> "Lazy[Dialer]":
    """Build the dialer of servers."""

    def build() -> "Dialer":
        from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer  # noqa: PLC0415

        return Dialer(network_support(settings).networks)

    return Lazy(build)


_UNAUTHENTICATED_FILES = 4
"""Limit of kept rotated files of unauthenticated requests."""


def build_audit(settings: Settings, worker: int = 1) -> AuditTrail:
    """Build a worker's audit without opening it. Raises ValueError for an unusable key."""
    path = settings.audit_path_of(worker)
    if path is None:
        return AuditTrail()
    key, companion = read_key(settings.audit_key_file), unauthenticated_path(path)
    return AuditTrail(
        AuditFile(
            path,
            key=key,
            max_bytes=settings.audit_max_bytes,
            keep_files=settings.audit_keep_files,
            required=settings.audit_required,
            companion=companion.name,
        ),
        AuditFile(
            companion,
            key=key,
            max_bytes=max(1, settings.audit_unauthenticated_bytes // (_UNAUTHENTICATED_FILES + 1)),
            keep_files=_UNAUTHENTICATED_FILES,
            required=False,
        ),
    )


LAST_EXPORT_S = 2.0
"""Limit of seconds for exporting the last spans at the end."""


def build_tracer(settings: Settings, metrics: Metrics) -> Tracer:
    """Build OpenTelemetry's tracer if an OTLP endpoint is set, otherwise a NoTracer.

    Raises ValueError if the packages for traces are missing.
    """
    setting = settings.traces_variable
    if setting is None:
        return NoTracer()
    set_sdk_variables()
    with _extra("otel", setting, packages="packages for traces are"):
        from mcp_tools_proxy.telemetry.otel_tracer import OtelTracer  # noqa: PLC0415
    return OtelTracer(
        service_name=settings.app_name,
        trust_traceparent=settings.trust_traceparent,
        close_s=min(LAST_EXPORT_S, settings.shutdown_grace_s),
        count_lost=metrics.spans_lost.inc,
    )


class UnconfiguredRetrieval:
    """Refuses every chunk window."""

    async def window(self, _wanted: object) -> Never:
        """Raise RetrievalNotConfigured."""
        raise RetrievalNotConfigured(
            "reading chunk windows is not configured here (retrieval_window_url is not set); use "
            "read_doc_pages or read_doc_section instead"
        )


def build_retrieval_client(
    settings: Settings, metrics: Metrics, transport: "AsyncBaseTransport | None"
) -> "RetrievalClient | None":
    """Build the client of the Retrieval Service, if configured."""
    url = settings.retrieval_window_url
    if url is None or settings.windows_are_local:
        return None
    from mcp_tools_proxy.documents.retrieval_client import (  # noqa: PLC0415
        RetrievalClient,
    )

    return RetrievalClient(
        url=url,
        token=secret_text(settings.retrieval_token),
        timeout_s=settings.retrieval_timeout,
        metrics=metrics,
        hide_foreign_documents=settings.hide_foreign_documents,
        send_caller=settings.retrieval_send_caller,
        transport=transport,
    )


def build_meaning(
    settings: EmbeddingsSettings,
    documents: OpenDocuments,
    metrics: Metrics,
    transport: "AsyncBaseTransport | None" = None,
) -> "MeaningSearch | None":
    """Build the search by meaning; None if it is off.

    Raises ValueError if the package for it is missing.
    """
    client = build_embeddings_client(settings, metrics, transport)
    if client is None:
        return None
    from mcp_tools_proxy.documents.embeddings.meaning_search import (  # noqa: PLC0415
        MeaningSearch,
    )

    return MeaningSearch(
        client,
        documents.store.read,
        documents.writer.vectors,
        min_similarity=settings.embeddings_min_similarity,
        metrics=metrics,
    )


def build_embeddings_client(
    settings: EmbeddingsSettings,
    metrics: Metrics,
    transport: "AsyncBaseTransport | None" = None,
) -> "EmbeddingsClient | None":
    """Build the client of the embeddings service, if configured.

    Raises ValueError if the package for vectors is missing.
    """
    url, model = settings.embeddings_url, settings.embeddings_model
    if url is None or model is None:
        return None
    with _extra("embeddings", "MCP_PROXY_EMBEDDINGS_URL", packages="package for vectors is"):
        from mcp_tools_proxy.documents.embeddings.embeddings_client import (  # noqa: PLC0415
            EmbeddingsClient,
        )
    return EmbeddingsClient(
        url=url,
        api_key=secret_text(settings.embeddings_api_key),
        model=model,
        batch=settings.embeddings_batch,
        timeout_s=settings.embeddings_timeout,
        query_timeout_s=settings.embeddings_query_timeout,
        metrics=metrics,
        transport=transport,
    )


def build_record_store(settings: Settings) -> RecordStore:
    """Build the store: in Redis if configured, otherwise in this process.

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
    from mcp_tools_proxy.storage.idempotency import redis_store  # noqa: PLC0415
    from mcp_tools_proxy.storage.record_cipher import RecordCipher  # noqa: PLC0415
    from mcp_tools_proxy.storage.redis_pool import open_pool  # noqa: PLC0415
    from mcp_tools_proxy.storage.redis_requests import MAX_CONNECTIONS  # noqa: PLC0415

    name = variable("rate_limit_storage_url" if settings.state_url is None else "state_url")
    return redis_store.RedisRecordStore(
        open_pool(url.get_secret_value(), max_connections=MAX_CONNECTIONS, variable=name),
        RecordCipher(secret_keys(settings.state_key)),
        variable=name,
        ttl_s=ttl_s,
        max_bytes=max_bytes,
    )


def build_run_store(settings: Settings) -> RunStore:
    """Build the store of runs: in Redis or PostgreSQL if configured, otherwise in this process.

    Raises ValueError for an unusable URL.
    """
    limits = RunLimits(
        idle_s=settings.runs_idle_s,
        mark_s=settings.runs_mark_s,
        runs=settings.runs_per_tenant,
        new_runs=settings.runs_per_user,
    )
    name, url = _setting_of_runs(settings)
    if url is None:
        return MemoryRunStore(limits, max_bytes=settings.runs_bytes)
    if not settings.state_key:
        return UnusableRunStore(
            f"{variable('state_key')} is not set, so no run can be kept in the store of "
            f"{variable(name)}",
            is_wanted=name != "rate_limit_storage_url",
        )
    from mcp_tools_proxy.storage.record_cipher import RecordCipher  # noqa: PLC0415
    from mcp_tools_proxy.storage.runs.shared_runs import RunCipher  # noqa: PLC0415

    cipher = RunCipher(RecordCipher(secret_keys(settings.state_key)))
    if url.startswith(POSTGRES_SCHEMES):
        from mcp_tools_proxy.documents.postgres.database import Database  # noqa: PLC0415
        from mcp_tools_proxy.storage.runs.postgres_runs import PostgresRunStore  # noqa: PLC0415

        database = Database(url, timeout_s=settings.documents_timeout)
        return PostgresRunStore(database, cipher, limits, close=database.close)
    from mcp_tools_proxy.storage.redis_pool import open_pool  # noqa: PLC0415
    from mcp_tools_proxy.storage.redis_requests import MAX_CONNECTIONS  # noqa: PLC0415
    from mcp_tools_proxy.storage.runs.redis_runs import RedisRunStore  # noqa: PLC0415

    pool = open_pool(url, max_connections=MAX_CONNECTIONS, variable=variable(name))
    return RedisRunStore(pool, cipher, limits, variable=variable(name))


def _setting_of_runs(settings: Settings) -> tuple[str, str | None]:
    """Return the first setting that names a store of runs, and its URL."""
    for name, url in (("runs_url", settings.runs_url), ("state_url", settings.state_url)):
        if url is not None:
            return name, url.get_secret_value()
    return "rate_limit_storage_url", secret_text(settings.rate_limit_storage_url)


@contextmanager
def _extra(name: str, setting: str, *, packages: str) -> Iterator[None]:
    """Import the packages of an extra inside; raise ValueError if they are missing."""
    try:
        yield
    except ModuleNotFoundError:
        raise ValueError(
            f"{setting}: is set, but the {packages} missing; run "
            f"pip install 'mcp-tools-proxy[{name}]', or unset it"
        ) from None
