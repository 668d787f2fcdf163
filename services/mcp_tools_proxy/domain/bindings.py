"""Configured changes of servers' items: bound arguments and overrides.

The gateway fills in bound arguments; models cannot choose them.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import cast

from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass

Path = tuple[str, ...]
"""Property names on the path from the arguments to a nested property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A property and its value: any JSON, or a text with parts of the caller."""

    path: Path
    value: object = field(repr=False)

    @property
    def text(self) -> str:
        """The path as configuration files write it: a dot in a name is ``\\.``."""
        return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in self.path)

    @property
    def constant(self) -> object:
        """The value; None if it depends on the caller (null is never bound)."""
        return None if isinstance(self.value, CallerTemplate) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBindings:
    """The ``bind`` section of a server's entry.

    With ``required``, tools and prompts that lack one of the properties are not offered.
    """

    bindings: tuple[Binding, ...] = ()
    required: bool = False


AgentBindings = Mapping[str, tuple[Binding, ...]]
"""The ``bind`` section of an agent's profile, by the tool's full name; constants only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The fields that a preset replaces; None keeps the server's value.

    ``name`` is an additional name: the item is also found by its original name.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None

    def applied_to(self, descriptor: JsonObject) -> JsonObject:
        """Return a copy with this title and description; the name is unchanged."""
        shown = dict(descriptor)
        if self.description is not None:
            shown["description"] = self.description
        if self.title is not None:
            shown["title"] = self.title
            annotations = cast("JsonObject", descriptor.get("annotations") or {})
            if "title" in annotations:  # clients before 2025-06-18 show this title
                shown["annotations"] = {**annotations, "title": self.title}
        return shown


NO_OVERRIDES = Overrides()
