"""Composition root of the gateway: builds every object once, opens and closes them in order.

HTTP routes are in ``app.http``.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from mcp_tools_proxy.app.approvals import build_approvals, build_webhook
from mcp_tools_proxy.app.auth import build_authenticator, build_tokens
from mcp_tools_proxy.app.configuration import open_config_folder
from mcp_tools_proxy.app.logins import OpenLogins, build_login_access
from mcp_tools_proxy.app.optional import (
    UnconfiguredRetrieval,
    build_audit,
    build_dialer,
    build_meaning,
    build_record_store,
    build_retrieval_client,
    build_run_store,
    build_tracer,
)
from mcp_tools_proxy.app.server_identity import (
    build_caller_values,
    build_filler,
    build_oauth,
    build_signing_keys,
)
from mcp_tools_proxy.app.sign_in_pages import build_user_sign_ins
from mcp_tools_proxy.app.start_checks import process_warnings
from mcp_tools_proxy.config.loader import process_environment
from mcp_tools_proxy.documents.chunk_windows import LocalRetrieval, Retrieval
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Key
from mcp_tools_proxy.documents.open_documents import build_documents, seed_documents
from mcp_tools_proxy.documents.page_images import PageImages, PageRenderer
from mcp_tools_proxy.documents.retention import Retention, parse_rules
from mcp_tools_proxy.documents.search.tenant_search import TenantSearch, build_search_indexes
from mcp_tools_proxy.documents.tools.document_resources import document_templates
from mcp_tools_proxy.documents.tools.local_tools import ToolParts, build_local_tools
from mcp_tools_proxy.documents.tools.read_document import pages_tool
from mcp_tools_proxy.domain.components import ResourceTemplate, Tool
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.domain.outcome import CallRecord
from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.downstream.components.build_components import build_components
from mcp_tools_proxy.downstream.connection import Connection
from mcp_tools_proxy.downstream.known_definitions import KnownDefinitions
from mcp_tools_proxy.downstream.pool import Pool
from mcp_tools_proxy.gateway.check_processes import CheckProcesses
from mcp_tools_proxy.gateway.definition_acceptance import DefinitionAcceptance
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.explainer import Destinations, Explainer
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase, StartupWait
from mcp_tools_proxy.gateway.preset_switch import PresetSwitch
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.gateway.reloader import ChangeSignal, Reloader
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules
from mcp_tools_proxy.gateway.service_audit import ServiceAudit
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.policy.document_tools import READS_RESOURCES, chosen_tools, is_turned_off
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import build_limiter
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_text
from mcp_tools_proxy.storage import cache_folder
from mcp_tools_proxy.storage.idempotency.idempotent_calls import IdempotentCalls
from mcp_tools_proxy.telemetry.audit.audit_paths import WORKER
from mcp_tools_proxy.telemetry.call_events import CallTelemetry
from mcp_tools_proxy.telemetry.logging import LevelName, LogLevel
from mcp_tools_proxy.telemetry.metrics import Metrics, watch_event_loop
from mcp_tools_proxy.telemetry.recent_calls import RecentCalls
from mcp_tools_proxy.telemetry.request_events import (
    DocumentChanges,
    LoginChanges,
    NoticedChanges,
    RequestTelemetry,
)
from mcp_tools_proxy.telemetry.spans import describe_call

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport

    from mcp_tools_proxy.gateway.approvals import Approvals

log = structlog.get_logger()


class Gateway:
    """The objects of a gateway; ``lifespan`` opens and closes those with resources."""

    def __init__(
        self,
        settings: Settings,
        *,
        retrieval_transport: "AsyncBaseTransport | None" = None,
        workers: WorkerGroup | None = None,
    ) -> None:
        self.workers = WorkerGroup() if workers is None else workers
        self._build_telemetry(settings)
        self._build_documents(settings, retrieval_transport)
        self._build_stores(settings)
        self._build_servers(settings)
        self._build_publisher(settings)
        self._build_sign_ins(settings)
        self._build_calls(settings)

    def _build_telemetry(self, settings: Settings) -> None:
        self._warnings = settings.warnings
        self.log_level = LogLevel(settings.log_level)
        self.lifecycle = Lifecycle()
        self.audit = build_audit(settings, self.workers.number)
        self.service_audit = ServiceAudit(self.audit, self.workers, _files_of_workers(settings))
        self.request_telemetry = RequestTelemetry(self.audit)
        self._noticed = NoticedChanges(self.audit, self.workers.leads.is_set)
        self.tokens = build_tokens(settings, self._noticed)
        self.authenticator = build_authenticator(settings, self.tokens, self.workers.console_key)
        self.metrics = Metrics(tenants=settings.metrics_tenants)
        self.tracer = build_tracer(settings, self.metrics)
        self.metrics.in_flight.set_function(lambda: self.lifecycle.in_flight)
        if (tokens := self.tokens) is not None:
            self.metrics.tokens_expiring.set_function(lambda: tokens.expiring)
        if (audit_file := self.audit.file) is not None:
            self.metrics.audit_queue_records.set_function(lambda: audit_file.queued)
            self.metrics.audit_records_lost.set_function(lambda: self.audit.lost)

    def _build_documents(
        self, settings: Settings, retrieval_transport: "AsyncBaseTransport | None"
    ) -> None:
        self.documents = build_documents(
            folder=settings.documents_path,
            cache_dir=settings.cache_dir,
            url=secret_text(settings.documents_url),
            timeout_s=settings.documents_timeout,
            stale_s=settings.documents_stale_s,
            keep_versions=settings.documents_keep_versions,
            max_file_bytes=settings.max_file_bytes,
            quota=settings.document_quota,
            metrics=self.metrics,
        )
        self.document_changes = DocumentChanges(self._noticed)
        self.retention = Retention(
            self.documents.writer,
            parse_rules(settings.documents_retention),
            self._document_outdated,
        )
        self.meaning = build_meaning(settings, self.documents, self.metrics)
        self.repository = DocumentRepository(
            self.documents.store,
            cache_bytes=settings.documents_cache_bytes,
            hide_foreign_documents=settings.hide_foreign_documents,
            metrics=self.metrics,
            on_changed=self.document_changes.changed,
            meaning=self.meaning,
        )
        for document in seed_documents() if settings.mock_mode else ():
            self.repository.hold(document)
        self.search_indexes = build_search_indexes(
            self.documents.store,
            self.repository,
            cache_dir=settings.cache_dir,
            folder=settings.documents_path,
            url=secret_text(settings.documents_url),
        )
        self.tenant_search = TenantSearch(self.repository, self.search_indexes)
        self.retrieval = build_retrieval_client(settings, self.metrics, retrieval_transport)

    def _build_stores(self, settings: Settings) -> None:
        self.limiter = build_limiter(
            _budget_limits(settings),
            storage_url=secret_text(settings.rate_limit_storage_url),
            metrics=self.metrics,
        )
        self.records = build_record_store(settings)
        self.runs = build_run_store(settings)
        self.signing_keys = build_signing_keys(settings)
        self.logins = OpenLogins(settings, quota=settings.login_quota)

    def _build_servers(self, settings: Settings) -> None:
        filler = build_filler(settings)
        self.dialer = build_dialer(settings)
        self.oauth = build_oauth(settings, filler, self.logins, LoginChanges(self.audit))
        self.offer_changes = ChangeSignal()
        self.pool = Pool(
            self._dial,
            self.metrics,
            on_change=self.offer_changes.report,
            known_definitions=KnownDefinitions(
                settings.cache_dir or cache_folder.default_folder(), self.dialer.open
            ),
            caller_values=build_caller_values(settings, self.signing_keys, filler, self.oauth),
        )

    def _build_publisher(self, settings: Settings) -> None:
        self.files = open_config_folder(settings, self.workers.size)
        self.registry = RegistryHolder()
        local_tools = tuple(self._local_tools(settings))
        local_templates = self._local_templates(settings)
        self.registry.replace(Registry.build(local_tools, templates=local_templates))
        self.run_rules = ActiveRunRules(local_tools, settings.run_quota)
        max_text_bytes, check = settings.max_text_bytes, settings.output_schema_check
        self.publisher = RegistryPublisher(
            holder=self.registry,
            local_tools=local_tools,
            local_templates=local_templates,
            pool=self.pool,
            build_components=lambda view, bindings: build_components(
                view,
                self.pool,
                max_text_bytes=max_text_bytes,
                output_schema_check=check,
                bindings=bindings,
            ),
            metrics=self.metrics,
            apply_limits=self.limiter.apply_rules,
            run_rules=self.run_rules,
            require_agent=settings.require_agent,
            list_options=ListOptions(
                name_style=settings.tool_name_style, name_max=settings.name_max
            ),
            definitions=settings.definitions,
        )
        self.reloader = Reloader(
            files=self.files,
            pool=self.pool,
            publisher=self.publisher,
            offer_changes=self.offer_changes,
        )
        self.preset_switch = PresetSwitch(self.files, self.publisher, self.workers)
        self.definition_acceptance = DefinitionAcceptance(self.files, self.publisher, self.workers)
        self._follow_changes()

    def _build_sign_ins(self, settings: Settings) -> None:
        publisher = self.publisher
        self.user_sign_ins = build_user_sign_ins(
            settings, self.logins, self.oauth, self.authenticator, lambda: publisher.configuration
        )
        self.login_access = build_login_access(
            self.logins, self.oauth, lambda: publisher.configuration
        )

    def _build_calls(self, settings: Settings) -> None:
        self.first_attempts = FirstAttempts(
            self.registry, self.pool, list_wait_s=settings.list_wait_s
        )
        self.startup = StartupWait(settings.startup_wait_s)
        call_telemetry = CallTelemetry(self.metrics, self.audit)
        self.recent_calls = RecentCalls() if settings.console else None
        blocklist = Blocklist(settings.blocklist_keywords)
        self.check_processes = CheckProcesses()
        self._webhook = build_webhook(settings)
        self.approvals = build_approvals(
            settings,
            self.logins,
            self.audit,
            self._webhook,
            server_entry=self._entry_of,
        )
        self.run_checks = RunChecks(
            self.runs,
            self.run_rules,
            self._approvals_of_calls,
            now=partial(datetime.now, settings.policies_zone),
        )
        self.executor = Executor(
            first_attempts=self.first_attempts,
            limiter=self.limiter,
            blocklist=blocklist,
            lifecycle=self.lifecycle,
            idempotent_calls=IdempotentCalls(self.records, self.metrics),
            check_processes=self.check_processes,
            run_checks=self.run_checks,
            max_result_bytes=settings.max_result_bytes,
            on_finish=_take_records(call_telemetry, self.recent_calls, is_traced=self.tracer.is_on),
            on_start=call_telemetry.log_start,
            reserve_record=self.audit.reserve,
            sign_ins=self.user_sign_ins.offers,
        )
        self.explainer = Explainer(
            first_attempts=self.first_attempts,
            limiter=self.limiter,
            blocklist=blocklist,
            lifecycle=self.lifecycle,
            check_audit=self.audit.check_available,
            run_checks=self.run_checks,
            destinations=Destinations(
                servers=self.statuses,
                check_call=self.pool.check_call,
                windows_configured=settings.retrieval_window_url is not None,
                windows_are_local=settings.windows_are_local,
            ),
        )
        self.subscriptions = Subscriptions(
            first_attempts=self.first_attempts,
            lifecycle=self.lifecycle,
            run_checks=self.run_checks,
        )

    def _local_tools(self, settings: Settings) -> Iterator[Tool]:
        chosen = chosen_tools(settings.document_tools)
        for tool in build_local_tools(self._tool_parts(settings)):
            if not is_turned_off(tool.spec.name, chosen):
                yield replace(tool, shows_sources=settings.sources)

    def _tool_parts(self, settings: Settings) -> ToolParts:
        images = None
        if settings.documents_keep_originals:
            renderer = PageRenderer(max_image_bytes=settings.max_image_bytes)
            images = PageImages(self.documents.store, renderer)
        return ToolParts(
            repository=self.repository,
            tenant_search=self.tenant_search,
            retrieval=self._windows(settings),
            list_tools=self.registry.list_tools,
            images=images,
            windows_configured=settings.retrieval_window_url is not None,
            windows_are_local=settings.windows_are_local,
            own_documents_only=settings.mock_mode or settings.windows_are_local,
            retrieval_knows_caller=settings.retrieval_send_caller,
            max_text_bytes=settings.max_text_bytes,
            max_pages_per_call=settings.max_pages_per_call,
            window_radius=settings.window_radius,
            max_image_bytes=settings.max_image_bytes,
            max_result_bytes=settings.max_result_bytes,
        )

    def _local_templates(self, settings: Settings) -> Sequence[ResourceTemplate]:
        if is_turned_off(READS_RESOURCES, chosen_tools(settings.document_tools)):
            return ()
        limits = settings.max_pages_per_call, settings.max_text_bytes
        read_pages = pages_tool(
            self.repository, max_pages_per_call=limits[0], max_text_bytes=limits[1]
        )
        return document_templates(self.repository, read_pages, max_pages_per_call=limits[0])

    def _windows(self, settings: Settings) -> Retrieval:
        if settings.windows_are_local:
            return LocalRetrieval(self.repository)
        return self.retrieval or UnconfiguredRetrieval()

    @asynccontextmanager
    async def _dial(self, *connecting: Any) -> AsyncIterator[Connection]:
        """Connect to a server; see Dial."""
        async with (await self.dialer.open()).dial(*connecting) as connection:
            yield connection

    def _entry_of(self, server_id: str) -> object:
        """Return the current entry of a server in mcp.json."""
        return self.publisher.configuration.servers.get(server_id)

    async def _approvals_of_calls(self) -> "Approvals":
        return (await self.approvals.open()).calls

    async def _close_clients(self) -> None:
        if self.retrieval is not None:
            await self.retrieval.aclose()
        if self.meaning is not None:
            await self.meaning.aclose()

    async def _run_documents(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.documents.run())
            group.create_task(self.search_indexes.run())
            group.create_task(self._remove_outdated())
            if self.meaning is not None:
                group.create_task(self.meaning.maker.run())

    async def _run_webhook(self) -> None:
        if self._webhook is not None:
            await self._webhook.run()

    async def _remove_outdated(self) -> None:
        """Remove outdated documents, in one of the worker processes."""
        await self.workers.leads.wait()
        await self.retention.run()

    async def _document_outdated(self, head: DocumentHead, reason: str) -> None:
        self.request_telemetry.outdated(head, reason)
        await self.document_changed((head.tenant_id, head.doc_id))

    def _follow_changes(self) -> None:
        """Make changes that other worker processes have made."""
        self.workers.on("reconnect", self.pool.reconnect)
        self.workers.on("log level", lambda changed: self._set_log_level(*changed))
        self.workers.on("current log level", lambda _: self._changed_log_level())
        self.workers.on("document changed", self.documents.refresh)
        if (tokens := self.tokens) is not None:
            self.workers.on("tokens changed", lambda _: tokens.load())

    async def _join_workers(self) -> None:
        """Take over what operators have changed in the workers that run already."""
        await self.preset_switch.join()
        for level in await self.workers.ask("current log level"):
            if level is not None:
                self._set_log_level(*level)
            return

    def _restore_log_level(self) -> None:
        """Restore the level at the end of the service; other workers may go on with theirs."""
        if not self.workers.is_retiring:
            self.log_level.restore()

    async def reconnect(self, server_id: str) -> bool:
        """Reconnect a server in all worker processes, see Pool."""
        await self.workers.tell("reconnect", server_id)
        return self.pool.reconnect(server_id)

    async def change_log_level(self, level: LevelName, for_s: float | None) -> None:
        """Change the log level of all worker processes, see LogLevel."""
        self._set_log_level(level, for_s)
        await self.workers.tell("log level", (level, for_s))

    def _set_log_level(self, level: LevelName, for_s: float | None) -> None:
        self.log_level.change(level, for_s=for_s)

    def _changed_log_level(self) -> tuple[LevelName, float | None] | None:
        level = self.log_level
        return None if level.current == level.default else (level.current, level.remaining_s)

    async def tokens_changed(self) -> None:
        """Have the other worker processes read the changed tokens file."""
        await self.workers.tell("tokens changed")

    async def document_changed(self, key: Key) -> None:
        """Have the other worker processes read a changed document."""
        await self.workers.tell("document changed", key)

    def embed_document(self, key: Key) -> None:
        """Request the vectors of a document, which are computed in the background."""
        if self.meaning is not None:
            self.meaning.maker.request(key)

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Return the status of each server, in the order of mcp.json."""
        return tuple(self.publisher.statuses)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Load documents and configuration, serve inside the block, close everything afterwards.

        Downstream servers connect in the background: only readiness and calls that need a server
        wait for them.
        """
        warn = (
            log.error if self.log_level.default == "error" else log.warning
        )  # shown at every log level
        if self.workers.is_first:
            for warning in self._warnings:
                warn("settings.warning", variable=warning.variable, reason=warning.message)
            for reason in process_warnings(process_environment()):
                warn("process.warning", reason=reason)
        self.tracer.open()
        try:
            self.audit.open()
            await self.documents.connect()
            await self.reloader.load()
            await self.limiter.connect()
            await self.records.connect()
            await self.runs.connect()
            self.workers.is_settled = self.pool.track_first_attempts()
            self.startup.begin(self.workers.is_settled)
            if self.tokens is not None:
                await self.tokens.load()
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(self._run_documents()),
                    group.create_task(self.limiter.run()),
                    group.create_task(self.records.run()),
                    group.create_task(self.runs.run()),
                    group.create_task(self._run_webhook()),
                    group.create_task(self.pool.run()),
                    group.create_task(watch_event_loop(self.metrics.event_loop_blocked.observe)),
                    group.create_task(self.reloader.run()),
                ]
                if self.tokens is not None:
                    background.append(group.create_task(self.tokens.run()))
                if self.signing_keys is not None:
                    background.append(group.create_task(self.signing_keys.run()))
                self.document_changes.begin()
                await self._join_workers()
                self.lifecycle.phase = Phase.SERVING
                try:
                    yield
                finally:
                    self.lifecycle.phase = Phase.STOPPING
                    for task in background:
                        task.cancel()
        finally:
            await self.check_processes.aclose()
            await self.dialer.aclose()
            await self.user_sign_ins.aclose()
            await self.oauth.aclose()
            await self.approvals.aclose()
            await self.logins.aclose()
            await self._close_clients()
            await self.records.close()
            await self.runs.close()
            await self.limiter.close()
            self.tenant_search.close()
            await self.search_indexes.close()
            self.repository.close()
            await self.documents.close()
            self.document_changes.flush()
            self._restore_log_level()
            await self.tracer.close()
            self.audit.sum_up()
            await asyncio.to_thread(self.audit.close)


def _take_records(
    telemetry: CallTelemetry, recent_calls: RecentCalls | None, *, is_traced: bool
) -> Callable[[CallRecord], None]:
    """Return the consumer of finished calls' records, with the parts that the settings enable."""
    takers = [telemetry.log_end]
    if is_traced:
        takers.append(describe_call)
    if recent_calls is not None:
        takers.append(recent_calls.add)
    if len(takers) == 1:
        return telemetry.log_end

    def take(record: CallRecord) -> None:
        for taker in takers:
            taker(record)

    return take


def _files_of_workers(settings: Settings) -> Path | None:
    return settings.audit_path_of(WORKER) if WORKER in settings.audit else None


def _budget_limits(settings: Settings) -> BudgetLimits:
    return BudgetLimits(
        document_calls=settings.rate_limit_calls,
        document_tokens=settings.rate_limit_tokens,
        tenant_calls=settings.rate_limit_tenant_calls,
        tenant_tokens=settings.rate_limit_tenant_tokens,
        window_s=settings.rate_limit_window_s,
    )
