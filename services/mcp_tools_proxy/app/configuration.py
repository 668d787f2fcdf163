"""Reads the configuration with the defaults and limits of the settings."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_network
from pathlib import Path

from mcp_tools_proxy.config.auth_rules import OAuthSupport
from mcp_tools_proxy.config.config_folder import ConfigFolder
from mcp_tools_proxy.config.entry_rules import IdentitySupport, NetworkSupport, StdioSupport
from mcp_tools_proxy.config.loader import (
    CONFIGURATION_FILE,
    load_configuration,
    process_environment,
)
from mcp_tools_proxy.config.policies import require_engine
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig, Problem
from mcp_tools_proxy.domain.networks import Proxies, ServerNetworks
from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.settings.settings import Settings


def open_config_folder(settings: Settings, workers: int = 1) -> ConfigFolder:
    """Open the configuration folder of a gateway with a number of worker processes.

    Raises ValueError for policies without their engine: without it, every call would be refused.
    """
    folder = settings.config_dir
    try:
        require_engine(folder)
    except InvalidConfig as error:
        raise ValueError(str(error)) from error
    reader = configuration_reader(settings, folder)
    return ConfigFolder(
        folder,
        load_configuration=lambda: divided_among(workers, reader()),
        pinned=settings.preset,
    )


def divided_among(workers: int, configuration: Configuration) -> Configuration:
    """Return the part of one worker: the calls in flight at servers that all workers share.

    A stdio server runs once per worker. Raises InvalidConfig for a limit that is too low.
    """
    if workers == 1:
        return configuration
    servers, problems = dict(configuration.servers), []
    for server_id, server in configuration.servers.items():
        if server.transport is Transport.STDIO:
            continue
        of_tenant = server.max_calls_in_flight_per_tenant
        for key, limit in (
            ("maxCallsInFlight", server.max_calls_in_flight),
            ("maxCallsInFlightPerTenant", of_tenant),
        ):
            if limit is not None and limit < workers:
                path = f"$.mcpServers.{configuration.key_of(server_id)}.{key}"
                message = f"{workers} worker processes cannot share {limit} calls; raise it"
                problems.append(Problem(file=CONFIGURATION_FILE, path=path, message=message))
        servers[server_id] = replace(
            server,
            max_calls_in_flight=server.max_calls_in_flight // workers,
            max_calls_in_flight_per_tenant=None if of_tenant is None else of_tenant // workers,
        )
    if problems:
        raise InvalidConfig(tuple(problems))
    return replace(configuration, servers=servers) if servers else configuration


def configuration_reader(settings: Settings, folder: Path) -> Callable[[], Configuration]:
    """Return a function that reads mcp.json with these settings and raises InvalidConfig."""
    environment = process_environment()
    given = {name: value for name, value in environment.items() if name in settings.stdio_env}
    return partial(
        load_configuration,
        folder,
        environment,
        call_timeout_s=settings.tool_timeout_s,
        max_result_bytes=settings.max_result_bytes,
        identity=identity_support(settings),
        stdio=StdioSupport(mode=settings.stdio, commands=settings.stdio_commands, env=given),
        network=network_support(settings),
    )


def network_support(settings: Settings) -> NetworkSupport:
    """Return the networks and proxies for entries of mcp.json."""
    networks = tuple(map(ip_network, settings.server_networks))
    return NetworkSupport(
        networks=ServerNetworks(networks=networks),
        proxies=Proxies.of(process_environment()),
        requires_tls=settings.server_require_tls,
    )


def identity_support(settings: Settings) -> IdentitySupport:
    """Return the identity features that entries of mcp.json can use with these settings."""
    return IdentitySupport(
        has_secrets=settings.secrets_dir is not None,
        can_sign=settings.public_url is not None and settings.signing_key_file is not None,
        oauth=OAuthSupport(
            jwt_issuer=settings.jwt_issuer if settings.auth_mode == "jwt" else None,
            keeps_logins=bool(settings.credentials_key),
            proves_users=settings.auth_mode == "jwt" and settings.jwt_user_claim is not None,
        ),
        has_several_tenants=partial(has_several_tenants, settings),
    )


def has_several_tenants(settings: Settings) -> bool:
    """Return whether callers can belong to several tenants, by JWTs, the tokens file, or unproven.

    Without tokens any caller can name any tenant; on loopback that is one person's machine. Reads
    the tokens file, so it blocks.
    """
    if settings.auth_mode == "token" and settings.tokens_file is not None:
        return len(_tenants_of_tokens(settings.tokens_file)) > 1
    if settings.auth_mode == "jwt":
        return True
    return settings.is_exposed


def _tenants_of_tokens(path: Path) -> Collection[str]:
    from mcp_tools_proxy.auth.token_format import read_lines  # noqa: PLC0415 - for one mode only

    try:
        entries = read_lines(path.read_bytes()).entries
    except OSError:
        return ()
    tenants = (it.principal.tenant_id for it in entries if not it.is_expired(datetime.now(UTC)))
    return {tenant_id for tenant_id in tenants if tenant_id is not None}
