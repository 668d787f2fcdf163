"""What servers offer: the snapshot of one server's last discovery, and the view of all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.bindings import NO_OVERRIDES, Overrides, Path
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Missing


class CheckArguments(Protocol):
    """Accepts a tool's arguments, or raises InvalidArguments."""

    def __call__(self, arguments: JsonObject, filled_in: Sequence[Path] = (), /) -> None:
        """Check the arguments; no error says anything of those at the paths ``filled_in``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidItem:
    """An item that a server offered and the gateway does not; ``reason`` explains why.

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
    """A server's capabilities, each under its key, in the server's order.

    Descriptors are kept as the server sent them, unknown fields included, without the fields that
    are ``ignored``. The key of a tool or prompt is its name; of a resource its URI, else its name
    (P-12); of a template its URI template.
    """

    tools: Mapping[str, JsonObject] = field(default_factory=dict)
    prompts: Mapping[str, JsonObject] = field(default_factory=dict)
    resources: Mapping[str, JsonObject] = field(default_factory=dict)
    templates: Mapping[str, JsonObject] = field(default_factory=dict)
    instructions: str | None = None
    """What the server tells models of itself as a whole."""
    checks: Mapping[str, CheckArguments] = field(default_factory=dict, compare=False)
    """Tool name → the compiled check of its ``inputSchema``."""
    dropped: tuple[InvalidItem, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    has_template_for: Callable[[str], bool] = field(default=_never, compare=False)
    """Returns whether one of the templates matches a URI."""
    need_task: frozenset[str] = frozenset()
    """The tools that can only run as MCP tasks, which are not supported."""
    failed_lists: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Category → why its list failed this time; its items are those of the discovery before."""
    unlisted: frozenset[str] = frozenset()
    """The categories whose list failed each time, so that none of their items is known."""

    is_remembered: bool = field(default=False, compare=False)
    """Whether it is of an earlier run: it is listed, and calls wait for the first discovery."""

    def lacks_list(self, kind: Kind) -> bool:
        """Return whether a list of this kind never came: unknown names may be items of it."""
        return not self.unlisted.isdisjoint(_CATEGORIES_OF[kind])

    @property
    def components(self) -> Iterator[tuple[Kind, str]]:
        """Kind and key of every usable item; a template counts as a resource."""
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
