"""Checks that somebody can sign in to the console; apart from its builder, since that is slow."""

from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.wire.identifiers import is_loopback


def check_console(settings: Settings) -> None:
    """Raise ValueError for a console that nobody could sign in to."""
    if settings.console and needs_one_time_address(settings) and not is_loopback(settings.host):
        raise ValueError(
            f"{variable('admin_token')}: is needed while {variable('console')} is true and the "
            "gateway can be reached from other machines: nobody could sign in; or set "
            f"{variable('auth_mode')} to token, or to jwt with {variable('signin_client_id')}"
        )


def needs_one_time_address(settings: Settings) -> bool:
    """Return whether nobody can sign in to the console by a token or at an issuer."""
    return (
        settings.admin_token is None
        and settings.auth_mode != "token"
        and settings.pages_url is None
    )
