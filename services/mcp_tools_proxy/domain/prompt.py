"""A prompt: a template of messages that a server offers."""

from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.component import Component, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec:
    """Frozen description of one prompt; ``as_mcp`` is its server's descriptor as it came."""

    name: str
    server_id: str
    as_mcp: JsonObject
    argument_names: frozenset[str] = field(default=frozenset())
    required: frozenset[str] = field(default=frozenset())
    """The arguments that it cannot do without."""

    @property
    def kind(self) -> Kind:
        """A prompt."""
        return Kind.PROMPT

    @property
    def bare_name(self) -> str:
        """What its server calls it."""
        return self.name

    @property
    def needs_tenant(self) -> bool:
        """It is its server's, which knows no tenants."""
        return False

    @property
    def idempotent(self) -> bool:
        """It is only read."""
        return True


class Prompt(Component, Protocol):
    """A prompt to be fetched by name; its result has ``messages`` and perhaps ``description``."""

    @property
    def spec(self) -> PromptSpec:
        """Describe the prompt."""
        ...

    @property
    def completion(self) -> Component:
        """What completes its arguments; its own arguments are MCP's params without ``ref``."""
        ...
