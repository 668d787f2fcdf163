"""Arguments that are bound: the gateway fills them in, so that no model chooses them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller_template import CallerTemplate

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
