"""How tools are named in the lists of the MCP facade (contract §4, ``tool_name_style``)."""

from enum import StrEnum


class ToolNameStyle(StrEnum):
    """What a downstream tool is listed as over MCP; ours go by their own names in every style.

    ``server:tool``, the alias, or what its server calls it.
    """

    SERVER = "server"
    ALIAS = "alias"
    BARE = "bare"
