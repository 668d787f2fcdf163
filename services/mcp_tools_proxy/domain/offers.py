"""Offers of servers: the snapshot of one server's last discovery, and the view of all servers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from mcp_tools_proxy.domain.bindings import NO_OVERRIDES, Overrides, Path
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.fast_dataclass import dataclass


class CheckArguments(Protocol):
    """Accepts a tool's arguments, or raises InvalidArguments."""

    def __call__(self, arguments: JsonObject, filled_in: Sequence[Path] = (), /) -> None:
        """Check the arguments; errors do not mention arguments at the paths ``filled_in``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidItem:
    """An offered item that the gateway rejects; ``reason`` explains why.

    ``needs_task`` marks a valid tool that can only run as an MCP task, which is not supported.
    """

    kind: Kind
    name: str
    reason: str
    needs_task: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Optional fields of an item that have a wrong type; the item is used without them."""

    kind: Kind
    name: str
    fields: tuple[str, ...]


def _never(_: str) -> bool:
    return False


_CATEGORIES_OF: Mapping[Kind, frozenset[str]] = {
    Kind.TOOL: frozenset({"tools"}),
    Kind.PROMPT: frozenset({"prompts"}),
    Kind.RESOURCE: frozenset({"resources", "resource_templates"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A server's capabilities by key, in the server's order.

    Descriptors are as the server sent them, with unknown fields but without the ``ignored`` ones.
    Keys are the names of tools and prompts, the URIs (or names, P-12) of resources, and URI
    templates.
    """

    tools: Mapping[str, JsonObject] = field(default_factory=dict)
    prompts: Mapping[str, JsonObject] = field(default_factory=dict)
    resources: Mapping[str, JsonObject] = field(default_factory=dict)
    templates: Mapping[str, JsonObject] = field(default_factory=dict)
    instructions: str | None = None
    checks: Mapping[str, CheckArguments] = field(default_factory=dict, compare=False)
    """Tool name → the compiled check of its ``inputSchema``."""
    dropped: tuple[InvalidItem, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    has_template_for: Callable[[str], bool] = field(default=_never, compare=False)
    need_task: frozenset[str] = frozenset()
    """The tools that can only run as MCP tasks, which are not supported."""
    failed_lists: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Category → the error of its last list; the items are those of the previous discovery."""
    unlisted: frozenset[str] = frozenset()
    """The categories whose list has always failed, so that their items are unknown."""

    is_remembered: bool = field(default=False, compare=False)
    """Whether it is from an earlier run: items are listed, and calls wait for the first
    discovery."""

    def lacks_list(self, kind: Kind) -> bool:
        """Return whether a list of this kind is missing, so that unknown names can be its items."""
        return not self.unlisted.isdisjoint(_CATEGORIES_OF[kind])

    @property
    def components(self) -> Iterator[tuple[Kind, str]]:
        """Kind and key of each usable item; a template counts as a resource."""
        for kind, items in (
            (Kind.TOOL, self.tools),
            (Kind.PROMPT, self.prompts),
            (Kind.RESOURCE, {**self.resources, **self.templates}),
        ):
            for key in items:
                yield kind, key

    @property
    def by_category(self) -> Mapping[str, Mapping[str, JsonObject]]:
        """The items by category, named as in counts, logs and ``failed_lists``."""
        return {
            "tools": self.tools,
            "prompts": self.prompts,
            "resources": self.resources,
            "resource_templates": self.templates,
        }


EMPTY_SNAPSHOT = Snapshot()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The server that provides a visible item; ``name`` and ``descriptor`` are the server's."""

    server_id: str
    name: str
    descriptor: JsonObject
    overrides: Overrides = NO_OVERRIDES

    @property
    def shown(self) -> JsonObject:
        """The descriptor shown to callers, under the server's name."""
        if self.overrides == NO_OVERRIDES:
            return self.descriptor
        return self.overrides.applied_to(self.descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """An item hidden by the same name or URI of ``winner``, an earlier server in scope (P-13)."""

    kind: Kind
    server_id: str
    name: str
    winner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The visible items and their routes (P-14), and the omitted items.

    ``tools`` is keyed by ``server_id:tool`` in the preset's order, the other kinds by the name or
    URI that callers use. Both are the list and the routing map. A key's routes are in scope order;
    the first one that the agent may use applies (P-13).
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
        """The qualified names of the callable tools."""
        return frozenset(self.tools)
