"""The frozen table of everything callable now, and its holder."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import AgentNotFound, ToolNotAllowed, ToolNotFound
from mcp_tools_proxy.domain.tool import Tool, ToolSpec
from mcp_tools_proxy.policy.bounds import QUOTE_CHARS, quote

EXPECTED_NAME = "the name of a tool that list_available_tools shows, or server_id:tool"


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything callable, by name and by alias; never changed, only replaced."""

    by_name: Mapping[str, Tool]
    by_alias: Mapping[str, Tool]

    @classmethod
    def build(cls, tools: Iterable[Tool]) -> Self:
        """Make a registry, in the order given. Raises ValueError when two share a name."""
        by_name: dict[str, Tool] = {}
        by_alias: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in by_name or tool.spec.alias in by_alias:
                raise ValueError(f"two tools are named {tool.spec.name!r}")
            by_name[tool.spec.name] = tool
            by_alias[tool.spec.alias] = tool
        return cls(by_name, by_alias)

    def resolve(self, name: str, caller: Caller) -> Tool:
        """Give the tool that ``caller`` means by ``name``: a name, else an alias (contract §6).

        Raises AgentNotFound, ToolNotAllowed, ToolNotFound.
        """
        check_agent(caller)
        tool = self.by_name.get(name) or self.by_alias.get(name)
        if tool is None:
            raise self._unknown(name)
        return tool

    def visible_to(self, caller: Caller) -> tuple[ToolSpec, ...]:
        """List what ``resolve`` would accept from ``caller``. Raises AgentNotFound."""
        check_agent(caller)
        return tuple(tool.spec for tool in self.by_name.values())

    def _unknown(self, name: str) -> ToolNotAllowed | ToolNotFound:
        server_id, colon, tool_name = name.partition(":")
        if server_id and colon and tool_name:
            return ToolNotAllowed(
                f"tool {quote(name)} is not allowed here; list_available_tools shows what is"
            )
        near = get_close_matches(name[:QUOTE_CHARS], self.by_name, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected {EXPECTED_NAME}"
        return ToolNotFound(
            f"no tool is named {quote(name)}; {hint}",
            details={"expected": EXPECTED_NAME, **({"did_you_mean": near[0]} if near else {})},
        )


class RegistryHolder:
    """Holds the current registry; a reader takes ``current`` once and finishes on it."""

    def __init__(self, registry: Registry) -> None:
        self.current = registry

    def visible_to(self, caller: Caller) -> tuple[ToolSpec, ...]:
        """List what ``caller`` may run now. Raises AgentNotFound."""
        return self.current.visible_to(caller)


def check_agent(caller: Caller) -> None:
    """Refuse an agent that has no profile; there are none yet. Raises AgentNotFound."""
    if caller.agent is not None:
        raise AgentNotFound(
            f"no agent profile is named {quote(caller.agent)}; leave agent out, there are none yet"
        )
