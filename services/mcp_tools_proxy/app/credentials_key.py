"""Checks at a start that logins can be kept, where an entry of mcp.json needs one."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from mcp_tools_proxy.config.loader import CONFIGURATION_FILE, read_if_there
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.domain.oauth.server_auth import Grant
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable


def check_credentials_key(settings: Settings) -> None:
    """Raise ValueError if an entry wants somebody to sign in, and there is no key for the login.

    Later, such an entry is invalid: a reload does not end a gateway.
    """
    if settings.credentials_key:
        return
    with suppress(InvalidConfig, OSError):  # a start shows what is wrong in the file
        for server_id in _servers_with_logins(settings):
            raise ValueError(
                f"{variable('credentials_key')}: is needed to keep the login to server "
                f"{server_id}; make one with: openssl rand -hex 32"
            )


def _servers_with_logins(settings: Settings) -> Iterator[str]:
    written = read_if_there(settings.config_dir / CONFIGURATION_FILE)
    servers = written.get("mcpServers") if isinstance(written, Mapping) else None
    for server_id, entry in servers.items() if isinstance(servers, Mapping) else ():
        auth = entry.get("auth") if isinstance(entry, Mapping) else None
        if not isinstance(auth, Mapping) or _is_off(entry):
            continue
        if auth.get("grant", Grant.AUTHORIZATION_CODE.value) == Grant.AUTHORIZATION_CODE.value:
            yield str(server_id)


def _is_off(entry: Mapping[str, object]) -> bool:
    """Return whether an entry is disabled, or has a token of its own."""
    headers = entry.get("headers")
    names = headers if isinstance(headers, Mapping) else {}
    has_token = any(str(name).lower() == "authorization" for name in names)
    return entry.get("enabled") is False or entry.get("disabled") is True or has_token
