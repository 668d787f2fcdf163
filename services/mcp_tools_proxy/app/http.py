"""Composition root of the HTTP service: the gateway behind its routes."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from mcp_tools_proxy.app.auth import mcp_callers
from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.health_checks import build_health
from mcp_tools_proxy.app.logins import open_sign_in_store
from mcp_tools_proxy.app.mcp import build_connector, build_server
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.domain.audit import Entry
from mcp_tools_proxy.domain.caller import ANY_TENANT
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.health import Health
from mcp_tools_proxy.gateway.preset_switch import PresetPreviews
from mcp_tools_proxy.gateway.service_metrics import ServiceMetrics
from mcp_tools_proxy.gateway.whole_service import WholeService
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.http.api.audit_routes import AuditRoutes
from mcp_tools_proxy.http.api.batch_routes import BatchRoutes
from mcp_tools_proxy.http.api.call_routes import CallRoutes, ItemRoutes
from mcp_tools_proxy.http.api.definition_routes import DefinitionRoutes
from mcp_tools_proxy.http.api.document_routes import DocumentRoutes
from mcp_tools_proxy.http.api.document_upload import Uploads
from mcp_tools_proxy.http.api.endpoint import EndpointFactory
from mcp_tools_proxy.http.api.explain_routes import ExplainRoutes
from mcp_tools_proxy.http.api.health_routes import HealthRoutes, landing_routes
from mcp_tools_proxy.http.api.limit_routes import LimitRoutes
from mcp_tools_proxy.http.api.list_routes import ListRoutes, ReadableDocumentRoutes, ToolPreviews
from mcp_tools_proxy.http.api.log_level_routes import LogLevelRoutes
from mcp_tools_proxy.http.api.login_routes import LoginRoutes
from mcp_tools_proxy.http.api.openapi import TAGS
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.overview_routes import OverviewRoutes
from mcp_tools_proxy.http.api.preset_routes import PresetRoutes
from mcp_tools_proxy.http.api.route_builder import Feature, RouteBuilder
from mcp_tools_proxy.http.api.run_routes import RunRoutes
from mcp_tools_proxy.http.api.server_routes import RemoteRoutes, ServerRoutes
from mcp_tools_proxy.http.api.token_routes import TokenRoutes
from mcp_tools_proxy.http.api.try_routes import TryRoutes
from mcp_tools_proxy.http.api.upload_queue import UploadQueue
from mcp_tools_proxy.http.api.upload_routes import UploadRoutes
from mcp_tools_proxy.http.api.upload_statuses import UploadStatuses
from mcp_tools_proxy.http.body import BodyLimits
from mcp_tools_proxy.http.fast_routes import (
    DescribedApp,
    DirectRoute,
    FastRouter,
    add_error_handlers,
)
from mcp_tools_proxy.http.host_guard import HostOriginGuard
from mcp_tools_proxy.http.request_headers import Peers
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.http.responses import error_response
from mcp_tools_proxy.http.token_gate import OperatorCheck, TokenGate
from mcp_tools_proxy.mcp.server.http.endpoints import (
    HttpEndpoints,
    HttpLimits,
    json_rpc_error_response,
)
from mcp_tools_proxy.mcp.server.http.protected_resource import ProtectedResource, SignInChallenge
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_keys, secret_text
from mcp_tools_proxy.storage.cache_folder import default_folder
from mcp_tools_proxy.telemetry.logging import flush_logs
from mcp_tools_proxy.wire.identifiers import is_loopback
from mcp_tools_proxy.wire.version import VERSION

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport

    from mcp_tools_proxy.console.console_app import Console
    from mcp_tools_proxy.mcp.connector.connector import Connector
    from mcp_tools_proxy.mcp.server.http.shared_sessions import SharedSessions

READABLE_BY_PAGES = (
    *("ETag", "Location", "Mcp-Session-Id", "Preference-Applied", "RateLimit", "RateLimit-Policy"),
    *("Retry-After", "WWW-Authenticate", "X-Trace-Id"),
)
"""Response headers that web pages of ``allowed_origins`` can read (CORS)."""


def create_app(
    settings: Settings,
    *,
    retrieval_transport: "AsyncBaseTransport | None" = None,
    workers: WorkerGroup | None = None,
) -> FastAPI:
    """Build the service. ``retrieval_transport`` replaces the network in tests.

    ``workers`` are the processes of the service; by default this one is alone.

    ``app.state`` has ``gateway``, ``mcp_endpoints``, and, if any, ``connector`` and ``console``.
    Raises ValueError for an unusable limit store URL or CA file.
    """
    gateway = Gateway(settings, retrieval_transport=retrieval_transport, workers=workers)
    refusals = RequestRefusals(
        gateway.metrics,
        gateway.request_telemetry,
        Peers(settings.trusted_proxies),
        needs_token=gateway.authenticator.needs_token,
    )
    protected_resource = _protected_resource(settings)
    mcp_endpoints = _mcp_endpoints(settings, gateway, refusals, protected_resource)
    connector = _connector(settings, gateway)
    health = build_health(settings, gateway, connector.status if connector else None)
    queue = _upload_queue(settings, gateway, refusals)
    routes = _api_routes(settings, gateway, connector, health, refusals, queue)
    console = _console(settings, gateway, routes, refusals)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            connecting = connector.lifespan() if connector else nullcontext()
            async with (
                gateway.lifespan(),
                mcp_endpoints.lifespan(),
                queue.lifespan(),
                connecting,
            ):
                yield
        finally:
            if console is not None:
                await console.aclose(ends_service=not gateway.workers.is_retiring)
            flush_logs()  # uvicorn can end the process by the signal it received

    app = DescribedApp(
        title=settings.app_name,
        version=VERSION,
        openapi_tags=[*TAGS],
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # the service has its own
    )
    app.state.gateway = gateway
    app.state.mcp_endpoints = mcp_endpoints
    app.state.connector = connector
    app.state.console = console
    pages = [
        *_page_routes(gateway, refusals),
        *(console.routes() if console else ()),
        *landing_routes(
            health, name=settings.app_name, version=VERSION, has_console=console is not None
        ),
    ]
    app.router.routes[:0] = [*routes, *pages]
    add_error_handlers(app, refusals)
    fast_routes = [route for route in routes if route.is_fast]
    app.add_middleware(FastRouter, routes=[*fast_routes, *mcp_endpoints.routes()])
    if gateway.authenticator.needs_token:
        app.add_middleware(
            TokenGate,
            authenticator=gateway.authenticator,
            refusals=refusals,
            tracer=gateway.tracer,
            answer=_refuse_token,
        )
    if protected_resource is not None:
        app.add_middleware(SignInChallenge, parameters=protected_resource.challenge)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["*"],
            expose_headers=READABLE_BY_PAGES,
        )
    app.add_middleware(
        HostOriginGuard,
        hosts=settings.allowed_hosts,
        origins=settings.allowed_origins,
        on_loopback=is_loopback(settings.host),
        pages_url=settings.pages_url,
        has_console=settings.console,
        refusals=refusals,
    )
    return app


def _api_routes(
    settings: Settings,
    gateway: Gateway,
    connector: "Connector | None",
    health: Health,
    refusals: RequestRefusals,
    queue: UploadQueue,
) -> Sequence[DirectRoute]:
    authenticator = gateway.authenticator
    service = WholeService(
        gateway.workers,
        health,
        servers=gateway.statuses,
        remote=lambda: connector.status() if connector else None,
        recent_calls=gateway.recent_calls,
    )
    gate = OperatorGate(host=settings.host, authenticator=authenticator)
    build = RouteBuilder(
        EndpointFactory(refusals, limits=_body_limits(settings)),
        gate,
        needs_token=authenticator.needs_token,
        tracer=gateway.tracer,
    )
    origin_of = refusals.peers.origin_at(Entry.API)
    callers = CallerResolver(authenticator, origin_of=origin_of)
    listers = CallerResolver(authenticator, default_tenant_id=ANY_TENANT, origin_of=origin_of)
    users = CallerResolver(authenticator, admits_operators=True, origin_of=origin_of)
    executor, publisher = gateway.executor, gateway.publisher
    features: Sequence[Feature] = (
        DocumentRoutes(
            gateway.documents.writer,
            _uploads(settings),
            queue,
            gate,
            gateway.lifecycle,
            on_change=gateway.document_changed,
            on_put=gateway.embed_document,
        ),
        UploadRoutes(queue, gate),
        AuditRoutes(gateway.service_audit, gate, gateway.lifecycle, refusals),
        RunRoutes(gateway.service_audit),
        ExplainRoutes(gateway.explainer, gate, callers),
        DefinitionRoutes(publisher, gateway.definition_acceptance),
        LoginRoutes(
            users,
            gate,
            gateway.login_access,
            gateway.user_sign_ins.offers,
            jwt_issuer=settings.jwt_issuer if settings.auth_mode == "jwt" else None,
        ),
        TokenRoutes(
            gate,
            _tokens_file(gateway),
            lambda: gateway.registry.current.access_rules.agents,
            settings.token_quota,
            on_change=gateway.tokens_changed,
        ),
        ServerRoutes(
            authenticator,
            gate,
            service=service,
            registry=gateway.registry,
            reconnect=gateway.reconnect,
        ),
        OverviewRoutes(service, publisher, gateway.workers.started_at),
        LogLevelRoutes(gateway.log_level, gateway.change_log_level),
        TryRoutes(
            callers, gate, executor, gateway.explainer, max_text_bytes=settings.max_text_bytes
        ),
        ReadableDocumentRoutes(callers, executor),
        CallRoutes(callers, executor),
        BatchRoutes(
            callers,
            executor,
            gateway.lifecycle,
            max_batch_calls=settings.max_batch_calls,
            max_json_items=settings.max_json_items,
            max_text_bytes=settings.max_text_bytes,
            telemetry=gateway.request_telemetry,
        ),
        ItemRoutes(callers, executor),
        ListRoutes(
            listers,
            gateway.registry,
            gateway.first_attempts,
            gateway.request_telemetry,
            ToolPreviews(
                PresetPreviews(gateway.preset_switch, publisher, gateway.registry),
                gate,
                listers,
                gateway.first_attempts,
            ),
        ),
        LimitRoutes(callers, gate, gateway.registry, gateway.limiter),
        PresetRoutes(gateway.preset_switch, publisher, authenticator=authenticator),
        RemoteRoutes(authenticator, remote=service.remote),
        HealthRoutes(
            service,
            ServiceMetrics(gateway.workers, gateway.metrics).exposition,
            OperatorCheck(authenticator),
            metrics_token=secret_text(settings.metrics_token),
            published_keys=_published_keys(gateway),
        ),
    )
    return [route for feature in features for route in build.routes_of(feature)]


def _uploads(settings: Settings) -> Uploads:
    return Uploads(
        max_document_bytes=settings.max_document_bytes,
        keep_originals=settings.documents_keep_originals,
        ocr_languages=settings.ocr_languages,
        ocr_timeout_s=settings.ocr_timeout_s,
        with_link_targets=settings.import_link_targets,
        with_notes=settings.import_notes,
    )


def _upload_queue(settings: Settings, gateway: Gateway, refusals: RequestRefusals) -> UploadQueue:
    shared = None
    if settings.state_url is not None or settings.documents_url is not None:
        # ciphers and redis-py are slow to import
        from mcp_tools_proxy.http.api.shared_upload_statuses import (  # noqa: PLC0415
            SharedUploadStatuses,
        )

        shared = SharedUploadStatuses(open_sign_in_store(settings, gateway.logins))
    return UploadQueue(
        UploadStatuses((settings.cache_dir or default_folder()) / "uploads"),
        gateway.lifecycle,
        refusals,
        gateway.workers,
        shared=shared,
        max_document_bytes=settings.max_document_bytes,
        queued=gateway.metrics.uploads_queued,
    )


def _tokens_file(gateway: Gateway) -> TokenFileVerifier | None:
    return gateway.tokens if isinstance(gateway.tokens, TokenFileVerifier) else None


def _page_routes(gateway: Gateway, refusals: RequestRefusals) -> Sequence[Route]:
    pages = gateway.user_sign_ins.pages
    return () if pages is None else pages.routes(refusals)


def _console(
    settings: Settings,
    gateway: Gateway,
    routes: Sequence[DirectRoute],
    refusals: RequestRefusals,
) -> "Console | None":
    if not settings.console:
        return None
    # its libraries take time and memory
    from mcp_tools_proxy.app.console import build_console  # noqa: PLC0415

    return build_console(settings, gateway, routes, refusals)


def _published_keys(gateway: Gateway) -> Callable[[], Mapping[str, object]] | None:
    keys = gateway.signing_keys
    return None if keys is None else lambda: keys.keys.published


def _refuse_token(scope: Scope, error: ProxyError, trace_id: str) -> Response:
    """Build the error response in the format of the entry: MCP clients expect JSON-RPC."""
    answer = json_rpc_error_response if scope["path"].startswith("/mcp") else error_response
    return answer(error, trace_id)


def _connector(settings: Settings, gateway: Gateway) -> "Connector | None":
    if settings.remote_address is None:
        return None
    return build_connector(settings, gateway, settings.remote_address)


def _protected_resource(settings: Settings) -> ProtectedResource | None:
    if settings.mcp_resource is None or settings.jwt_issuer is None:
        return None
    return ProtectedResource(
        resource=settings.mcp_resource, issuer=settings.jwt_issuer, scopes=settings.jwt_scopes
    )


def _mcp_endpoints(
    settings: Settings,
    gateway: Gateway,
    refusals: RequestRefusals,
    protected_resource: ProtectedResource | None,
) -> HttpEndpoints:
    server = build_server(settings, gateway)
    return HttpEndpoints(
        server,
        registry=gateway.registry,
        callers=mcp_callers(settings, gateway.authenticator, refusals.peers.origin_at(Entry.MCP)),
        lifecycle=gateway.lifecycle,
        metrics=gateway.metrics,
        refusals=refusals,
        limits=HttpLimits(
            body=_body_limits(settings),
            max_batch_calls=settings.max_batch_calls,
            max_sessions=settings.max_sessions,
            session_idle_s=settings.session_idle_s,
            session_keys=secret_keys(settings.session_keys),
        ),
        workers=gateway.workers,
        shared_sessions=_shared_sessions(settings, server.replica),
        protected_resource=protected_resource,
    )


def _shared_sessions(settings: Settings, replica: str) -> "SharedSessions | None":
    """Return the session store shared by replicas; None without Redis and session keys.

    With the keys, each replica reads the others' session ids. Raises ValueError.
    """
    url = settings.rate_limit_storage_url
    if not settings.session_keys or url is None:
        return None
    # redis-py is slow to import
    from mcp_tools_proxy.mcp.server.http import shared_sessions  # noqa: PLC0415
    from mcp_tools_proxy.storage.redis_pool import open_pool  # noqa: PLC0415

    return shared_sessions.SharedSessions(
        open_pool(url.get_secret_value(), max_connections=shared_sessions.MAX_CONNECTIONS),
        replica,
        idle_s=settings.session_idle_s,
        max_set=settings.max_sessions,
    )


def _body_limits(settings: Settings) -> BodyLimits:
    return BodyLimits(max_bytes=settings.max_request_bytes, max_items=settings.max_json_items)
