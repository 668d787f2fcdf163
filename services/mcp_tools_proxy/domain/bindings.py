"""What the configuration changes in the items of servers: bound arguments, and overrides.

Bound arguments are filled in by the gateway, so that no model chooses them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.components import JsonObject

Path = tuple[str, ...]
"""The names that lead from the arguments to a property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A property and its value: any JSON, or a text with parts of the caller."""

    path: Path
    value: object = field(repr=False)

    @property
    def text(self) -> str:
        """The path as configuration files spell it: a dot in a name is ``\\.``."""
        return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in self.path)

    @property
    def constant(self) -> object:
        """The value, None for one that depends on the caller; null is never bound."""
        return None if isinstance(self.value, CallerTemplate) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBindings:
    """The ``bind`` of a server's entry.

    With ``required`` a tool or prompt without one of the properties is not offered.
    """

    bindings: tuple[Binding, ...] = ()
    required: bool = False


AgentBindings = Mapping[str, tuple[Binding, ...]]
"""The ``bind`` of an agent's profile, by the tool's full name; constants only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The fields that a preset replaces; None for one that stays the server's.

    ``name`` is one more name of the item: it is found by its own as well.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None

    def applied_to(self, descriptor: JsonObject) -> JsonObject:
        """Return a descriptor with the title and description; its name is the server's still."""
        shown = dict(descriptor)
        if self.description is not None:
            shown["description"] = self.description
        if self.title is not None:
            shown["title"] = self.title
            annotations = cast("JsonObject", descriptor.get("annotations") or {})
            if "title" in annotations:  # clients before 2025-06-18 show that one
                shown["annotations"] = {**annotations, "title": self.title}
        return shown


NO_OVERRIDES = Overrides()
