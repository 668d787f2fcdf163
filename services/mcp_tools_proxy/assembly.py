"""Composition root of the gateway: every object is built once, opened and closed in reading order.

What is built here knows nothing of HTTP routes: ``app`` puts them in front.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from httpx import AsyncBaseTransport
from pydantic import SecretStr

from mcp_tools_proxy.documents.folder import DocumentFolder
from mcp_tools_proxy.documents.memory import InMemoryRepository
from mcp_tools_proxy.documents.retrieval import RetrievalClient
from mcp_tools_proxy.documents.seed import seed_documents
from mcp_tools_proxy.gateway.execute import Executor
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.gateway.registry import Registry, RegistryHolder
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.ratelimit.budgets import Budgets
from mcp_tools_proxy.ratelimit.limiter import Limiter, build_limiter
from mcp_tools_proxy.settings import Settings
from mcp_tools_proxy.telemetry.calls import CallTelemetry
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.tools.catalog import catalog_tool
from mcp_tools_proxy.tools.metadata import metadata_tool
from mcp_tools_proxy.tools.pages import pages_tool
from mcp_tools_proxy.tools.search import search_tool
from mcp_tools_proxy.tools.sections import section_tool
from mcp_tools_proxy.tools.windows import window_tool


class Gateway:
    """Every object of one gateway; ``run`` opens and closes those that own something."""

    def __init__(
        self, settings: Settings, *, retrieval_transport: AsyncBaseTransport | None = None
    ) -> None:
        self.lifecycle = Lifecycle()
        self.metrics = Metrics()
        self.metrics.in_flight.set_function(lambda: self.lifecycle.in_flight)
        self.repository = InMemoryRepository(
            hide_foreign_documents=settings.hide_foreign_documents,
            metrics=self.metrics,
        )
        self.folder = DocumentFolder(
            settings.documents_path,
            self.repository,
            self.metrics,
            builtin=seed_documents() if settings.mock_mode else (),
        )
        self.retrieval = RetrievalClient(
            url=settings.retrieval_window_url,
            token=_secret(settings.retrieval_token),
            timeout_s=settings.retrieval_timeout,
            metrics=self.metrics,
            hide_foreign_documents=settings.hide_foreign_documents,
            transport=retrieval_transport,
        )
        self.limiter = build_limiter(
            _budgets(settings),
            storage_url=_secret(settings.rate_limit_storage_url),
            metrics=self.metrics,
        )
        self.registry = self._build_registry(settings)
        self.executor = Executor(
            registry=self.registry,
            limiter=self.limiter,
            blocklist=Blocklist(settings.blocklist_keywords),
            lifecycle=self.lifecycle,
            max_result_bytes=settings.max_result_bytes,
            record=CallTelemetry(self.metrics),
        )
        self.health = Health(
            self.lifecycle,
            {
                "documents": lambda: _documents_check(self.repository, self.folder),
                "limit_store": lambda: _limit_store_check(self.limiter),
                **(
                    {"retrieval": lambda: _retrieval_check(self.retrieval)}
                    if self.retrieval.configured
                    else {}
                ),
            },
        )

    def _build_registry(self, settings: Settings) -> RegistryHolder:
        max_text_bytes = settings.max_text_bytes
        holder = RegistryHolder(Registry.build(()))
        holder.current = Registry.build(
            (
                section_tool(self.repository, max_text_bytes=max_text_bytes),
                pages_tool(
                    self.repository,
                    max_pages_per_call=settings.max_pages_per_call,
                    max_text_bytes=max_text_bytes,
                ),
                metadata_tool(self.repository),
                search_tool(self.repository, max_text_bytes=max_text_bytes),
                window_tool(
                    self.repository,
                    self.retrieval,
                    radius=settings.window_radius,
                    mock_mode=settings.mock_mode,
                    max_text_bytes=max_text_bytes,
                ),
                catalog_tool(holder.visible_to),
            )
        )
        return holder

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Load the documents, then serve until left; what was opened is closed."""
        try:
            await self.folder.load()
            async with asyncio.TaskGroup() as group:
                watchers = [
                    group.create_task(self.folder.watch()),
                    group.create_task(self.limiter.run()),
                ]
                self.lifecycle.phase = Phase.SERVING
                try:
                    yield
                finally:
                    self.lifecycle.phase = Phase.STOPPING
                    for watcher in watchers:
                        watcher.cancel()
        finally:
            await self.retrieval.aclose()
            await self.limiter.close()
            self.repository.close()


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def _budgets(settings: Settings) -> Budgets:
    return Budgets(
        document_calls=settings.rate_limit_calls,
        document_tokens=settings.rate_limit_tokens,
        tenant_calls=settings.rate_limit_tenant_calls,
        tenant_tokens=settings.rate_limit_tenant_tokens,
        window_s=settings.rate_limit_window_s,
    )


def _documents_check(
    repository: InMemoryRepository, folder: DocumentFolder
) -> Mapping[str, object]:
    ignored = len(folder.errors)
    return {
        "status": "degraded" if ignored else "ok",
        "documents": len(repository),
        "files_ignored": ignored,
        "folder": "present" if folder.present else "missing",
    }


def _limit_store_check(limiter: Limiter) -> Mapping[str, object]:
    return {"status": "ok" if limiter.up else "degraded", "store": limiter.store}


def _retrieval_check(retrieval: RetrievalClient) -> Mapping[str, object]:
    last = retrieval.last_call
    return {"status": "degraded" if last == "failed" else "ok", "last_call": last}
