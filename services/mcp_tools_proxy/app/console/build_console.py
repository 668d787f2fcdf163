"""Builds the console of a gateway; its libraries are slow to import."""

import secrets
import time
from collections.abc import Sequence

import structlog
from starlette.routing import Route

from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.user_sign_ins.open_sign_in_store import open_sign_in_store
from mcp_tools_proxy.console.assets import Assets
from mcp_tools_proxy.console.console import Console
from mcp_tools_proxy.console.endpoint import FORM_MARGIN_BYTES, Pages
from mcp_tools_proxy.console.one_time_address import OneTimeCodes
from mcp_tools_proxy.console.page_headers import OwnOrigin
from mcp_tools_proxy.console.session_cookie import SessionCookie
from mcp_tools_proxy.console.sessions import Sessions
from mcp_tools_proxy.console.sign_in import SignIn
from mcp_tools_proxy.console.templates import Templates
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.web.request_refusals import RequestRefusals

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
            reason="people are signed in at this replica alone, and until it stops; with "
            "MCP_PROXY_STATE_URL, or documents in PostgreSQL, all replicas know them",
        )
    assets = Assets()
    gate = OperatorGate(host=settings.host, authenticator=gateway.authenticator)
    pages = Pages(
        templates=Templates(assets),
        sessions=Sessions(store, time.time),  # noqa: TID251 - the clock that is passed on
        cookie=SessionCookie(settings.public_url),
        origin=OwnOrigin(settings.public_url),
        identify=gate.identify,
        routes=routes,
        refusals=refusals,
        dashboard_url=settings.console_dashboard_url,
        max_form_bytes=settings.max_request_bytes * 3 + FORM_MARGIN_BYTES,
    )
    codes = None
    if needs_one_time_address(settings):
        codes = OneTimeCodes(secrets.token_bytes(32), time.time)  # noqa: TID251 - see above
    sign_in = SignIn(pages, gateway.authenticator.operators.local, codes)
    return Console(pages, sign_in, assets, store.aclose)


def needs_one_time_address(settings: Settings) -> bool:
    """Return whether nobody can sign in to the console by a token or at an issuer."""
    return (
        settings.admin_token is None
        and settings.auth_mode != "token"
        and settings.pages_url is None
    )
