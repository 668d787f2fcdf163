"""The part of the servers' offers that a preset allows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.offers.overrides import NO_OVERRIDES, Overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The server that provides a visible item; ``name`` and ``descriptor`` are those of there."""

    server_id: str
    name: str
    descriptor: JsonObject
    overrides: Overrides = NO_OVERRIDES
    """What callers are shown instead."""

    @property
    def shown(self) -> JsonObject:
        """The descriptor that callers are shown, under the server's name."""
        if self.overrides == NO_OVERRIDES:
            return self.descriptor
        return self.overrides.applied_to(self.descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """An item hidden by the same name or URI of ``winner``, a server earlier in scope (P-13)."""

    kind: Kind
    server_id: str
    name: str
    winner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The visible items and their routes (P-14), and the items that had to be left out.

    ``tools`` is keyed by ``server_id:tool`` in the preset's order: list and allow-set in one.
    ``prompts``, ``resources`` and ``templates`` are keyed by the name or URI that callers use: list
    and routing map in one. A key's routes are in scope order, and the first is used (P-13), or the
    next one where an agent may not use the first.
    """

    tools: Mapping[str, Route] = field(default_factory=dict)
    prompts: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    resources: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    templates: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    shadowed: tuple[Shadowed, ...] = ()
    need_task: tuple[tuple[str, str], ...] = ()
    """Server id and name of missing tools that exist, but can only run as MCP tasks."""

    @property
    def allowed(self) -> frozenset[str]:
        """The qualified names of the tools that may be called."""
        return frozenset(self.tools)
