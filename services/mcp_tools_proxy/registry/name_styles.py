"""In which style a caller's lists name downstream tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.components import ToolNameStyle


@dataclass(frozen=True, slots=True, kw_only=True)
class NameStyles:
    """The styles of agents' profiles, by agent, and the setting's, which is for lists over MCP."""

    by_agent: Mapping[str, ToolNameStyle] = field(default_factory=dict)
    default: ToolNameStyle = ToolNameStyle.SERVER

    def over_mcp(self, requested: ToolNameStyle | None, agent: str | None) -> ToolNameStyle:
        """Return the style of a list over MCP: the request's, else the agent's, else ours."""
        return requested or self.by_agent.get(agent or "", self.default)

    def over_http(self, requested: ToolNameStyle | None, agent: str | None) -> ToolNameStyle:
        """Return the style of a list of the HTTP API, which no setting has ever changed."""
        return requested or self.by_agent.get(agent or "", ToolNameStyle.SERVER)


SERVER_STYLE = NameStyles()
"""The default: qualified names for everybody."""
