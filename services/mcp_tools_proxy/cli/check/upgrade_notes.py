"""Notes on an upgrade that concern one configuration; CHANGELOG has all changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.settings.settings import LOCAL_WINDOWS, Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.wire.identifiers import is_loopback

Servers = Sequence[ServerConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """One change: ``concerns`` tests whether it affects a configuration, ``text`` is the advice."""

    text: str
    concerns: Callable[[Settings, Servers], bool]


def _default_of(name: str, text: str) -> _Note:
    """Build the note on a changed default; it concerns configurations that do not set the value."""
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
        "rate_limit_calls", "is 120 by default, no longer 10; set it to keep the old budget."
    ),
    _default_of(
        "rate_limit_tokens",
        "is 614400 by default, no longer 2000 or 51200; set it to keep the old budget.",
    ),
    _default_of(
        "rate_limit_tenant_calls",
        "is 6000 by default, no longer 600; set it to keep the old budget.",
    ),
    _default_of(
        "rate_limit_tenant_tokens",
        "is 0 (off) by default, no longer 200000; set it to keep the old budget.",
    ),
    _default_of(
        "blocklist_keywords",
        "is empty by default, so nothing is blocked; set it to leak,dump,exfiltrate to keep that.",
    ),
    _default_of(
        "tool_name_style",
        "is unset by default, so streamable HTTP and stdio list tools as server__tool; set it to "
        "server to keep server:tool.",
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
        text="Errors of a call that changes something are no longer retryable once it was sent; "
        "who repeats such a call has to look first whether the work was done.",
        concerns=_with_servers,
    ),
    _Note(
        text="Tools that can only be run as tasks are no longer listed, and over MCP no resources "
        "whose URI not every client takes; a resource whose URI has variables is a template.",
        concerns=_with_servers,
    ),
    _Note(
        text="After 20 requests of one address that are refused without a valid token in a minute, "
        "further ones are summed up in one record; behind a reverse proxy set "
        f"{variable('trusted_proxies')} to its network, so that callers have their own addresses.",
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
        text="A checked JWT is believed until it expires or its key is no longer the issuer's; it "
        "was for a minute.",
        concerns=lambda settings, _: settings.auth_mode == "jwt",
    ),
    _Note(
        text="Requests to any host name are answered, and the start warns of it; set "
        f"{variable('allowed_hosts')} to the names that callers use, or to * if that is meant.",
        concerns=lambda settings, _: not settings.allowed_hosts and not is_loopback(settings.host),
    ),
    _Note(
        text="By request one tenant may store at most 1,000 tokens, 10,000 documents and 10,000 "
        f"logins; set {variable('quota_tokens')}, {variable('quota_documents')} and "
        f"{variable('quota_logins')}, and those of their bytes, where a tenant needs more.",
        concerns=lambda settings, _: (
            settings.auth_mode != "none" or settings.admin_token is not None
        ),
    ),
    _Note(
        text="On Linux each stdio server has a guard process of 4 MB beside it; a container's "
        "limits of processes and memory have to allow it.",
        concerns=lambda _, servers: any(
            it.enabled and it.transport is Transport.STDIO for it in servers
        ),
    ),
    _Note(
        text="The text of a Retrieval Service's 400 answer is in the log (retrieval.refused), no "
        "longer in the message that callers read.",
        concerns=lambda settings, _: settings.retrieval_window_url not in {None, LOCAL_WINDOWS},
    ),
    _Note(
        text="Each replica opens 65 connections to Redis before it is ready: see that maxclients "
        "of Redis allows them.",
        concerns=lambda settings, _: settings.rate_limit_storage_url is not None,
    ),
    _Note(
        text="The audit file must be a regular file with one name: a link is refused. Requests "
        "refused without a valid token are in NAME.unauthenticated beside it, which uses "
        f"{variable('audit_unauthenticated_bytes')} (100 MB) more. Copy rotated files to archive "
        "them: audit verify fails for one that was moved away.",
        concerns=lambda settings, _: settings.audit_path is not None,
    ),
)


def upgrade_notes(settings: Settings, servers: Servers) -> list[str]:
    """Return the changes that concern these settings and the servers of ``mcp.json``."""
    return [note.text for note in _NOTES if note.concerns(settings, servers)]
