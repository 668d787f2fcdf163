"""Builds the MCP server over the gateway."""

from urllib.parse import urlsplit

from mcp_tools_proxy.app.auth import mcp_callers
from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.domain.audit.origin import Entry, Origin
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.identity import AssertedIdentity, roles_of
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.policy.tenant_share import tenant_share
from mcp_tools_proxy.settings.settings import Settings


def build_server(
    settings: Settings, gateway: Gateway, *, one_tenant: bool = False
) -> GatewayMcpServer:
    """Build a server over the gateway.

    With ``one_tenant`` all callers are of the same tenant, which may then use all streams.
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
    )


def remote_caller(settings: Settings, gateway: Gateway) -> Caller:
    """Return the caller of all that the remote backend sends."""
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
