"""Tools that cannot have their name, because another one has it (contract §6)."""

from collections.abc import Iterable

from mcp_tools_proxy.domain.tool import Tool


def without_clashes(
    local: Iterable[Tool], remote: Iterable[Tool]
) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Part ``remote`` into the tools that can stand beside ``local`` and those that cannot.

    Names and aliases are one space, and local ones are reserved: a remote tool whose name or alias
    is taken, by a local tool or by one before it, is left out. It never shadows.
    """
    taken = {name for tool in local for name in (tool.spec.name, tool.spec.alias)}
    kept: list[Tool] = []
    dropped: list[Tool] = []
    for tool in remote:
        names = {tool.spec.name, tool.spec.alias}
        if names & taken:
            dropped.append(tool)
        else:
            taken |= names
            kept.append(tool)
    return tuple(kept), tuple(dropped)
