"""Builds the MCP server over the gateway, and the connector that serves it to a backend."""

import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_tools_proxy.app.auth import mcp_callers
from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.domain.audit import Entry, Origin
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.identity import AssertedIdentity, roles_of
from mcp_tools_proxy.mcp.server.message_session import MessageSessions
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.policy.tenant_share import tenant_share
from mcp_tools_proxy.settings.settings import Settings

if TYPE_CHECKING:
    from mcp_tools_proxy.mcp.connector.backend_dialer import Token
    from mcp_tools_proxy.mcp.connector.connector import Connector


def build_server(
    settings: Settings, gateway: Gateway, *, one_tenant: bool = False
) -> GatewayMcpServer:
    """Build a server over the gateway.

    With ``one_tenant`` all callers belong to one tenant, which can then use all streams.
    """
    limit = settings.max_sessions
    return GatewayMcpServer(
        settings.app_name,
        registry=gateway.registry,
        first_attempts=gateway.first_attempts,
        executor=gateway.executor,
        subscriptions=gateway.subscriptions,
        telemetry=gateway.request_telemetry,
        max_streams=limit,
        max_streams_of_tenant=limit if one_tenant else tenant_share(limit),
        tracer=gateway.tracer,
        sessions_are_runs=settings.runs_of_sessions,
    )


def remote_caller(settings: Settings, gateway: Gateway) -> Caller:
    """Return the caller for everything that the remote backend sends."""
    return mcp_callers(settings, gateway.authenticator).resolve_trusted(
        AssertedIdentity(
            tenant_id=settings.remote_tenant_id,
            user_id=settings.remote_user_id,
            roles=roles_of(settings.remote_user_roles),
            agent=settings.remote_agent,
            documents=settings.remote_documents,
        ),
        Origin(Entry.CONNECTOR, urlsplit(settings.remote_address or "").netloc),
    )


def build_connector(settings: Settings, gateway: Gateway, url: str) -> "Connector":
    """Build the connector to the backend at ``url``. Raises ValueError for an invalid CA file."""
    # aiohttp is slow to import
    from mcp_tools_proxy.mcp.connector.connector import Connector, ConnectorRules  # noqa: PLC0415
    from mcp_tools_proxy.mcp.connector.websocket_link import LinkRules  # noqa: PLC0415

    caller = remote_caller(settings, gateway)
    rules = ConnectorRules(
        server_identifier=settings.remote_identifier,
        link=LinkRules(
            url=url,
            trust=_tls_context(settings, url),
            max_frame_bytes=settings.remote_max_frame_bytes,
            keepalive_s=settings.remote_keepalive_s,
        ),
        max_items=settings.max_json_items,
        max_sessions=settings.max_sessions,
        session_idle_s=settings.session_idle_s,
        drop_grace_s=settings.remote_drop_grace_s,
        retry_max_s=settings.remote_retry_max_s,
    )
    server = build_server(settings, gateway, one_tenant=True)

    async def ready() -> None:
        await gateway.workers.leads.wait()
        # many backends list only once
        await gateway.pool.wait_first_attempts(settings.startup_wait_s)

    def record_ignored(reason: str) -> None:
        server.record_unread("remote.frame_ignored", caller, "INVALID_REQUEST", reason=reason)

    return Connector(
        rules,
        _token(settings),
        MessageSessions(server, caller),
        ready=ready,
        on_frame_ignored=record_ignored,
        metrics=gateway.metrics,
    )


def _tls_context(settings: Settings, url: str) -> ssl.SSLContext | None:
    """Return the TLS context for the backend; None for ws://.

    Raises ValueError for an invalid CA file.
    """
    if not url.startswith("wss:"):
        return None
    try:
        return ssl.create_default_context(cafile=settings.remote_ca_file)
    except (OSError, ssl.SSLError):
        raise ValueError(
            "MCP_PROXY_REMOTE_CA_FILE: should be a PEM file of certificates that can be read"
        ) from None


def _token(settings: Settings) -> "Token":
    from mcp_tools_proxy.mcp.connector.backend_dialer import FileToken, FixedToken  # noqa: PLC0415

    if settings.remote_token_file is not None:
        return FileToken(settings.remote_token_file)
    return FixedToken(settings.remote_token.get_secret_value() if settings.remote_token else "")
