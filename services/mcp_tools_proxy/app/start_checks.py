"""The checks of a start that need more than the settings, and what the log says of its address."""

import asyncio

import structlog

from mcp_tools_proxy.app.console.sign_in_check import check_console
from mcp_tools_proxy.documents.open_documents import prepare_documents
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.wire.identifiers import is_loopback

log = structlog.get_logger()


def check_start(settings: Settings, *, listens: bool = True) -> None:
    """Check the documents' database, and if it ``listens`` the console.

    Blocks, in a thread without an event loop. Raises ValueError.
    """
    url, owner_url = settings.documents_url, settings.documents_owner_url
    if url is not None:
        asyncio.run(
            prepare_documents(
                url.get_secret_value(),
                None if owner_url is None else owner_url.get_secret_value(),
                timeout_s=settings.documents_timeout,
            )
        )
    if listens:
        check_console(settings)


def warn_of_exposure(settings: Settings) -> None:
    """Log what clients of other machines may do that reach the address."""
    if is_loopback(settings.host):
        return
    if not settings.allowed_hosts:
        log.warning(
            "service.any_host",
            host=settings.host,
            problem="requests for any host name are accepted, so a malicious web page can "
            "reach the gateway (DNS rebinding); set MCP_PROXY_ALLOWED_HOSTS to the names that "
            "callers use, or to * if this is intended",
        )
    if settings.auth_mode == "none":
        log.warning(
            "service.no_authentication",
            host=settings.host,
            problem="callers are not authenticated: any client that reaches this address can act "
            "for every tenant; set MCP_PROXY_AUTH_MODE to token or jwt",
        )
