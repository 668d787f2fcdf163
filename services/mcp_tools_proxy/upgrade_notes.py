"""What changes on an upgrade, as far as it concerns one configuration (CHANGELOG has it all)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.settings import Settings
from mcp_tools_proxy.settings_values import variable

Servers = Sequence[ServerConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """One change; ``concerns`` says whether a configuration meets it, ``text`` what to do."""

    text: str
    concerns: Callable[[Settings, Servers], bool]


def _default_of(name: str, text: str) -> _Note:
    """Build the note on a default that changed: it concerns whoever has not set the value."""
    return _Note(
        text=f"{variable(name)} {text}",
        concerns=lambda settings, _: name not in settings.model_fields_set,
    )


def _with_servers(settings: Settings, servers: Servers) -> bool:
    return any(server.enabled for server in servers)


def _with_shared_servers(settings: Settings, servers: Servers) -> bool:
    return any(it.enabled and it.max_calls_in_flight_per_tenant is None for it in servers)


def _with_authentication(settings: Settings, servers: Servers) -> bool:
    return settings.auth_mode != "none"


_NOTES = (
    _default_of(
        "rate_limit_tokens",
        "is 51200 by default, no longer 2000; set it to keep the old budget.",
    ),
    _default_of(
        "blocklist_keywords",
        "is empty by default, so nothing is blocked; set it to leak,dump,exfiltrate to keep that.",
    ),
    _default_of(
        "keep_alive_s",
        "is 75 by default, no longer 5: a proxy in front should close idle connections sooner.",
    ),
    _Note(
        text="Readiness is 503 after a start until each server was tried once, for at most "
        f"{variable('startup_wait_s')} (5); set it to 0 to be ready at once, as before.",
        concerns=lambda settings, servers: (
            settings.startup_wait_s > 0 and _with_servers(settings, servers)
        ),
    ),
    _Note(
        text="One tenant has at most three quarters of a server's maxCallsInFlight; where there "
        "is one tenant, or none, set maxCallsInFlightPerTenant in the server's entry to all of it.",
        concerns=_with_shared_servers,
    ),
    _Note(
        text="Error messages of calls that change something are no longer retryable once the "
        "call was sent; a runtime that repeats them has to look first whether the work was done.",
        concerns=_with_servers,
    ),
    _Note(
        text="Tools that can only be run as tasks are no longer listed, and over MCP no resources "
        "whose URI not every client takes; a resource whose URI has variables is a template.",
        concerns=_with_servers,
    ),
    _Note(
        text="After 20 refused tokens a minute unknown tokens of that address get 401 unseen; "
        f"behind a reverse proxy set {variable('trusted_proxies')} to its network.",
        concerns=lambda settings, servers: (
            _with_authentication(settings, servers) and not settings.trusted_proxies
        ),
    ),
    _Note(
        text="Errors, problems and paths in GET /internal/mcp/servers and /health/ready are shown "
        "to operators only: a dashboard that reads them needs the admin token or role.",
        concerns=_with_authentication,
    ),
    _Note(
        text="Each replica opens 65 connections to Redis before it is ready: see that maxclients "
        "of Redis allows them.",
        concerns=lambda settings, _: settings.rate_limit_storage_url is not None,
    ),
)


def upgrade_notes(settings: Settings, servers: Servers) -> list[str]:
    """Return the changes that concern these settings and the servers of ``mcp.json``."""
    return [note.text for note in _NOTES if note.concerns(settings, servers)]
