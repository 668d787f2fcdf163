"""Checks that an operator can sign in to the console; apart from its builder, which is slow."""

from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.wire.identifiers import is_loopback


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
    """Return whether no operator can sign in to the console by a token or at an issuer.

    A JWT whose claim gives rights signs in where it is pasted, too: no issuer's pages are needed.
    """
    has_jwt = settings.auth_mode == "jwt" and settings.jwt_operator_claim is not None
    return (
        settings.admin_token is None
        and settings.auth_mode != "token"
        and settings.pages_url is None
        and not has_jwt
    )
