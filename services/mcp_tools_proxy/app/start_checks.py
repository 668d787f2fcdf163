"""Start checks that need more than the settings, and warnings about the listening address."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog

from mcp_tools_proxy.documents.open_documents import prepare_documents
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_text, variable
from mcp_tools_proxy.system.confinement import missing_for
from mcp_tools_proxy.wire.identifiers import is_loopback

log = structlog.get_logger()


def check_start(settings: Settings, *, listens: bool = True) -> None:
    """Check the documents' database, and, if it ``listens``, the console.

    Blocks, in a thread without an event loop. Raises ValueError.
    """
    url = settings.documents_url
    if url is not None:
        asyncio.run(
            prepare_documents(
                url.get_secret_value(),
                secret_text(settings.documents_owner_url),
                timeout_s=settings.documents_timeout,
            )
        )
    if listens:
        check_console(settings)


def warn_of_exposure(settings: Settings) -> None:
    """Log the risks of an address that other machines can reach."""
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


_MARKS = ("/.dockerenv", "/run/.containerenv")
_IN_KUBERNETES = "KUBERNETES_SERVICE_HOST"

AS_ROOT = (
    "the gateway runs as root in a container, so every server that it starts can read its keys; "
    "run it as another user, such as 10001, as the image does"
)


def process_warnings(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about missing isolation on this machine, for the start of the service."""
    if os.geteuid() == 0 and _is_container(environment):
        yield AS_ROOT
    yield from confinement_warnings()


def confinement_warnings() -> Iterator[str]:
    """Yield warnings about missing confinement, regardless of the user."""
    lack = missing_for(read=True, write=True, calls=True)
    if lack is not None:
        yield (
            "imports, page rendering and long argument checks are not fully confined: data that "
            "takes over such a process may read files or use the network. Confinement needs "
            f"{lack}"
        )


def _is_container(environment: Mapping[str, str]) -> bool:
    return _IN_KUBERNETES in environment or any(Path(mark).exists() for mark in _MARKS)


def check_console(settings: Settings) -> None:
    """Raise ValueError for a console that no operator could sign in to."""
    if settings.console and needs_one_time_address(settings) and not is_loopback(settings.host):
        raise ValueError(
            f"{variable('admin_token')}: is required while {variable('console')} is true and "
            "other machines can reach the gateway, because operators could not sign in; set it, "
            f"or set {variable('auth_mode')} to token, or to jwt with "
            f"{variable('jwt_operator_claim')}"
        )


def needs_one_time_address(settings: Settings) -> bool:
    """Return whether no operator can sign in to the console with a token or at an issuer.

    A JWT whose claim grants rights can be pasted, so it needs no sign-in pages.
    """
    has_jwt = settings.auth_mode == "jwt" and settings.jwt_operator_claim is not None
    return (
        settings.admin_token is None
        and settings.auth_mode != "token"
        and settings.pages_url is None
        and not has_jwt
    )
