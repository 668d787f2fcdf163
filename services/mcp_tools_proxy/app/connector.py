"""Builds the connector that serves a remote backend."""

import ssl
from functools import partial

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.mcp import build_server, remote_caller
from mcp_tools_proxy.connector.backend_token import FileToken, FixedToken, Token
from mcp_tools_proxy.connector.connector import Connector, ConnectorRules
from mcp_tools_proxy.connector.websocket_link import LinkRules
from mcp_tools_proxy.mcp_server.message_session import MessageSessions
from mcp_tools_proxy.settings.settings import Settings


def build_connector(settings: Settings, gateway: Gateway, url: str) -> Connector:
    """Build the connector to the backend at ``url``. Raises ValueError for a bad CA file."""
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

    def record_ignored(reason: str) -> None:
        server.record_unread("remote.frame_ignored", caller, "INVALID_REQUEST", reason=reason)

    return Connector(
        rules,
        _token(settings),
        MessageSessions(server, caller),
        # many backends list once and never again
        ready=partial(gateway.pool.wait_first_attempts, settings.startup_wait_s),
        on_frame_ignored=record_ignored,
        metrics=gateway.metrics,
    )


def _tls_context(settings: Settings, url: str) -> ssl.SSLContext | None:
    """Return the TLS context for the backend (custom CA file or system store); None for ws://.

    Raises ValueError for a bad CA file.
    """
    if not url.startswith("wss:"):
        return None
    try:
        return ssl.create_default_context(cafile=settings.remote_ca_file)
    except (OSError, ssl.SSLError):
        raise ValueError(
            "MCP_PROXY_REMOTE_CA_FILE: should be a PEM file of certificates that can be read"
        ) from None


def _token(settings: Settings) -> Token:
    if settings.remote_token_file is not None:
        return FileToken(settings.remote_token_file)
    return FixedToken(settings.remote_token.get_secret_value() if settings.remote_token else "")
