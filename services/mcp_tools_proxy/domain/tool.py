"""The one tool interface: registry and executor never ask what stands behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.caller import Call

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Frozen description of one tool, as a model sees it.

    ``alias`` matches ``^[a-zA-Z0-9_-]{1,64}$`` for model APIs that accept no other name (contract
    §6). The schemas are JSON Schema objects.
    """

    name: str
    alias: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: JsonObject = field(default_factory=dict)
    argument_names: frozenset[str] = field(init=False)
    """The arguments that the input schema declares."""

    def __post_init__(self) -> None:
        properties = self.input_schema.get("properties")
        names = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
        object.__setattr__(self, "argument_names", names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a run gave: ``value`` is a JSON object, ``tokens`` what it costs its budgets (§2)."""

    value: JsonObject
    tokens: int


class Tool(Protocol):
    """Something callable by name, local or remote."""

    @property
    def spec(self) -> ToolSpec:
        """Describe the tool; the same object for the tool's life."""
        ...

    def parse(self, arguments: JsonObject) -> object:
        """Check the arguments; what it returns goes to ``run`` unchanged.

        Raises InvalidArguments, and the *_TOO_LARGE errors that follow from arguments alone.
        """
        ...

    async def run(self, parsed: object, call: Call) -> ToolResult:
        """Do the work for ``call.caller``. Raises ProxyError; cancelling stops the work."""
        ...
