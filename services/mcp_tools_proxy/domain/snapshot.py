"""What ONE server offered at its last good discovery."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject

Check = Callable[[JsonObject], None]
"""Accepts a tool's arguments, or raises InvalidArguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidItem:
    """An item that a server offered and that cannot be used; ``reason`` says why.

    ``needs_task`` says that nothing is wrong with it: it can only be run as a task.
    """

    kind: Kind
    name: str
    reason: str
    needs_task: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Fields of an item that are not of their type; it is used without them."""

    kind: Kind
    name: str
    fields: tuple[str, ...]


def _never(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A server's capabilities, each under its key, in the server's order.

    Descriptors are kept as the server sent them, unknown fields too, but for the fields that are
    ``ignored``. The key of a tool or prompt is
    its name; of a resource its URI, else its name (P-12); of a template its URI template.
    """

    tools: Mapping[str, JsonObject] = field(default_factory=dict)
    prompts: Mapping[str, JsonObject] = field(default_factory=dict)
    resources: Mapping[str, JsonObject] = field(default_factory=dict)
    templates: Mapping[str, JsonObject] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict, compare=False)
    """For each tool the compiled check of its ``inputSchema``."""
    dropped: tuple[InvalidItem, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    has_template_for: Callable[[str], bool] = field(default=_never, compare=False)
    """Whether one of the templates stands for a URI."""
    need_task: frozenset[str] = frozenset()
    """The tools that can only be run as a task, which nobody can through us."""
    failed_lists: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Which lists could not be had this time, and why; their items are those of the time before."""

    @property
    def components(self) -> Iterator[tuple[Kind, str]]:
        """Everything that can be used, by kind and key; a template is a resource."""
        for kind, items in (
            (Kind.TOOL, self.tools),
            (Kind.PROMPT, self.prompts),
            (Kind.RESOURCE, {**self.resources, **self.templates}),
        ):
            for key in items:
                yield kind, key

    @property
    def by_category(self) -> Mapping[str, Mapping[str, JsonObject]]:
        """The items by category, as counts, logs and ``failed_lists`` name it."""
        return {
            "tools": self.tools,
            "prompts": self.prompts,
            "resources": self.resources,
            "resource_templates": self.templates,
        }


EMPTY_SNAPSHOT = Snapshot()
