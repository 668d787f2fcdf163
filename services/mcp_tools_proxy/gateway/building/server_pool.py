"""What the gateway asks of the sessions with the downstream servers, and of what they offer."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from mcp_tools_proxy.domain.components import Prompt, Resource, ResourceTemplate, Tool
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.domain.server import ServerConfig, ServerStatus


class ServerPool(Protocol):
    """The sessions with the downstream servers."""

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """The last good discovery of each enabled server that was ever reached, by server id."""
        ...

    @property
    def pending(self) -> Collection[str]:
        """The ids of the servers whose first connection attempt is not over."""
        ...

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        """The status of every server that ``apply`` was given."""
        ...

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Start, stop and replace sessions until they match ``wanted``; returns at once."""
        ...


def untried(pool: ServerPool) -> Collection[str]:
    """Return the servers of which this run knows nothing yet, neither an offer nor a failure."""
    discovered = {it for it, found in pool.snapshots.items() if not found.is_remembered}
    return set(pool.pending) - discovered


class RemoteComponents(Protocol):
    """The callable components of a view, each kind in the view's order."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools."""
        ...

    @property
    def prompts(self) -> Sequence[Prompt]:
        """The prompts."""
        ...

    @property
    def resources(self) -> Sequence[Resource]:
        """The resources."""
        ...

    @property
    def templates(self) -> Sequence[ResourceTemplate]:
        """The resource templates."""
        ...
