"""What has to happen to the running sessions so that they are those the configuration asks for."""

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_tools_proxy.domain.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The server ids to start, to stop, to replace by a new session, and to leave alone."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


def plan(running: Mapping[str, ServerConfig], wanted: Mapping[str, ServerConfig]) -> Plan:
    """Compare what runs with what is wanted; a disabled server is wanted not to run."""
    enabled = {server_id: config for server_id, config in wanted.items() if config.enabled}
    both = [server_id for server_id in enabled if server_id in running]
    return Plan(
        start=tuple(server_id for server_id in enabled if server_id not in running),
        stop=tuple(server_id for server_id in running if server_id not in enabled),
        replace=tuple(s for s in both if running[s] != enabled[s]),
        keep=tuple(s for s in both if running[s] == enabled[s]),
    )
