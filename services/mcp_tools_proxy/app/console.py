"""Builds the console of a gateway; its libraries are slow to import."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
from starlette.routing import Route

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.logins import open_sign_in_store
from mcp_tools_proxy.app.sign_in_pages import own_client
from mcp_tools_proxy.app.start_checks import needs_one_time_address
from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.console.console_app import Console
from mcp_tools_proxy.console.name_directory import NameDirectory
from mcp_tools_proxy.console.one_time_address import OneTimeAddresses
from mcp_tools_proxy.console.page_endpoint import FORM_MARGIN_BYTES, Pages
from mcp_tools_proxy.console.page_request import OwnOrigin
from mcp_tools_proxy.console.sessions import SessionCookie, Sessions
from mcp_tools_proxy.console.sign_in import CALLBACK_PATH, ConsoleSignIn
from mcp_tools_proxy.console.templates import Assets, Templates
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_keys
from mcp_tools_proxy.storage.cache_folder import default_folder
from mcp_tools_proxy.storage.record_cipher import RecordCipher
from mcp_tools_proxy.wire.identifiers import is_loopback

if TYPE_CHECKING:
    from mcp_tools_proxy.downstream.oauth.page_flow import ConsoleFlow

log = structlog.get_logger()


def build_console(
    settings: Settings,
    gateway: Gateway,
    routes: Sequence[Route],
    refusals: RequestRefusals,
) -> Console:
    """Build the console. Raises ValueError for an unusable URL of Redis."""
    store = open_sign_in_store(settings, gateway.logins)
    if not store.is_shared:
        log.info(
            "console.sessions_in_memory",
            reason="console sessions are known to this replica only and end when it stops; set "
            "MCP_PROXY_STATE_URL, or keep documents in PostgreSQL, to share them between "
            "replicas",
        )
    if settings.public_url is None and not is_loopback(settings.host):
        log.warning(
            "console.no_public_url",
            problem="behind a reverse proxy the console refuses forms, and its cookie is not "
            "limited to https; set MCP_PROXY_PUBLIC_URL to the address that browsers open",
        )
    base = urlsplit(settings.public_url or "").path.rstrip("/")
    assets = Assets(base)
    gate = OperatorGate(host=settings.host, authenticator=gateway.authenticator)
    pages = Pages(
        templates=Templates(assets, base),
        sessions=Sessions(store, _now),
        cookie=SessionCookie(settings.public_url),
        origin=OwnOrigin(settings.public_url),
        identify=gate.identify,
        names=_name_directory(gateway),
        routes=routes,
        base=base,
        refusals=refusals,
        dashboard_url=settings.console_dashboard_url,
        trace_url=settings.console_trace_url,
        max_form_bytes=settings.max_request_bytes * 3 + FORM_MARGIN_BYTES,
        open_approvals=partial(_open_desk, gateway),
    )
    addresses = None
    if needs_one_time_address(settings):
        folder = settings.cache_dir or default_folder()
        addresses = OneTimeAddresses(folder, gateway.workers.console_key, store, _now)
    sign_in = ConsoleSignIn(
        pages,
        gateway.authenticator.operators.guests,
        addresses,
        issuer=_issuer(settings, gateway),
        issuer_name=settings.jwt_issuer or "",
    )
    return Console(pages, sign_in, assets, addresses, store.aclose)


def _name_directory(gateway: Gateway) -> NameDirectory:
    tokens = gateway.tokens
    return NameDirectory(
        registry=gateway.registry,
        tokens=tokens if isinstance(tokens, TokenFileVerifier) else None,
        audit=gateway.service_audit,
        titles=lambda: {
            server_id: server.name
            for server_id, server in gateway.publisher.configuration.servers.items()
        },
    )


def _issuer(settings: Settings, gateway: Gateway) -> "ConsoleFlow | None":
    """Build the sign-in at the issuer of callers' tokens; None without sign-in pages.

    Uses the same settings as the pages for sign-ins to servers.
    """
    pages_url = settings.pages_url
    if pages_url is None:
        return None
    # the libraries of OAuth and MCP are 36 MB
    from mcp_tools_proxy.downstream.oauth.page_flow import ConsoleFlow  # noqa: PLC0415

    keys = secret_keys(settings.credentials_key)
    return ConsoleFlow(
        own_client(settings),
        gateway.oauth.open,
        lambda token: gateway.authenticator.authenticate(f"Bearer {token}"),
        RecordCipher(keys),
        _now,
        redirect_uri=f"{pages_url}{CALLBACK_PATH}",
    )


async def _open_desk(gateway: Gateway) -> ApprovalDesk:
    return (await gateway.approvals.open()).desk


def _now() -> float:
    return datetime.now(UTC).timestamp()
