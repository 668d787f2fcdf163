"""How a caller's lists are written: the address decides, then profile, settings and entry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.list_options import (
    MAX_NAME_CHARS,
    SERVER_NAMES,
    ListOptions,
    SchemaStyle,
)


class ListShape(NamedTuple):
    """How one list of tools is written; equal shapes give equal lists."""

    style: ToolNameStyle
    is_plain: bool = False
    """Whether schemas have common keywords only."""
    name_max: int = MAX_NAME_CHARS
    """The longest alias."""
    shows_given: bool = False
    """Whether names that the preset gives are shown instead of aliases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameStyles:
    """What profiles, by agent, and the settings say of lists."""

    by_agent: Mapping[str, ListOptions] = field(default_factory=dict)
    default: ListOptions = SERVER_NAMES

    def over_mcp(self, options: ListOptions, agent: str | None) -> ListShape:
        """Return the shape of a list over MCP."""
        profile = self.by_agent.get(agent or "", SERVER_NAMES)
        chosen = options.name_style or profile.name_style or self.default.name_style
        style = chosen or options.entry_style
        is_alias = style is ToolNameStyle.ALIAS
        name_max = options.name_max or profile.name_max or self.default.name_max
        return ListShape(
            style=style,
            is_plain=(options.schemas or profile.schemas) is SchemaStyle.PLAIN,
            name_max=(name_max or MAX_NAME_CHARS) if is_alias else MAX_NAME_CHARS,
            shows_given=is_alias and chosen is None,
        )

    def over_http(self, requested: ToolNameStyle | None, agent: str | None) -> ToolNameStyle:
        """Return the style of a list of the HTTP API, which no setting has ever changed."""
        profile = self.by_agent.get(agent or "", SERVER_NAMES)
        return requested or profile.name_style or ToolNameStyle.SERVER


SERVER_STYLE = NameStyles()
"""The default: each entry's own style for everybody."""
