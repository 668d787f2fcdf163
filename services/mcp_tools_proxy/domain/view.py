"""What a preset lets through of what the servers offer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where one visible item is to be had: ``name`` is what its server calls it."""

    server_id: str
    name: str
    descriptor: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """An item that is not visible, because ``winner`` comes first and offers the same (P-13)."""

    kind: Kind
    server_id: str
    name: str
    winner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The five parts of a filtering (P-14), and what it had to leave out.

    ``tools`` is keyed by ``server_id:tool`` in the preset's order: view and allow-set in one.
    ``prompts``, ``resources`` and ``templates`` are keyed by what callers ask for: view and routing
    map in one. Of several routes of one key, in scope order, the first has it (P-13); an agent may
    have another one, if it may not use the first.
    """

    tools: Mapping[str, Route] = field(default_factory=dict)
    prompts: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    resources: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    templates: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    shadowed: tuple[Shadowed, ...] = ()
    need_task: tuple[tuple[str, str], ...] = ()
    """Server and name of the missing tools that are there, and can only be run as tasks."""

    @property
    def allowed(self) -> frozenset[str]:
        """The qualified names of the tools that may be called."""
        return frozenset(self.tools)
