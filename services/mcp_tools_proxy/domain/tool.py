"""A tool: the one kind of component that a model calls by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.component import Component, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Frozen description of one tool, as a model sees it.

    ``alias`` matches ``^[a-zA-Z0-9_-]{1,64}$`` for model APIs that accept no other name (contract
    §6). The schemas are JSON Schema objects. ``extra`` is what else its server's descriptor holds
    (title, icons, ``_meta``, what MCP adds later), shown in lists as it came.
    """

    name: str
    alias: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    server_id: str | None = None
    needs_tenant: bool = False
    """Whether it works on what belongs to tenants."""
    idempotent: bool = True
    """Whether running it twice does no more than running it once."""
    argument_names: frozenset[str] = field(init=False)
    """The arguments that the input schema declares."""

    def __post_init__(self) -> None:
        properties = self.input_schema.get("properties")
        names = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
        object.__setattr__(self, "argument_names", names)

    @property
    def kind(self) -> Kind:
        """A tool."""
        return Kind.TOOL

    @property
    def bare_name(self) -> str:
        """What its server calls it; the name of one of ours."""
        return self.name if self.server_id is None else self.name[len(self.server_id) + 1 :]

    @property
    def as_mcp(self) -> JsonObject:
        """The tool as MCP's tools/list shows it."""
        shown: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.annotations:
            shown["annotations"] = self.annotations
        return {**shown, **self.extra} if self.extra else shown


class Tool(Component, Protocol):
    """Something callable by name, local or remote."""

    @property
    def spec(self) -> ToolSpec:
        """Describe the tool; the same object for the tool's life."""
        ...
