"""How the MCP facade names tools in its lists, and which presets let it (contract §4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mcp_tools_proxy.domain.preset import Reference
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name


class ToolNameStyle(StrEnum):
    """What a downstream tool is listed as over MCP; ours go by their own names in every style.

    ``server:tool``, the alias, or what its server calls it.
    """

    SERVER = "server"
    ALIAS = "alias"
    BARE = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """A tool whose bare name is not its alone; both places are those of references.

    ``other`` is None where one of our own tools has the name.
    """

    place: int
    name: str
    other: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNaming:
    """A style of names beside our own tools, whose names are ``own_names``."""

    style: ToolNameStyle = ToolNameStyle.SERVER
    own_names: frozenset[str] = frozenset()

    def clashes(self, tools: Sequence[Reference]) -> Iterator[Clash]:
        """Tell which enabled references of a preset the style cannot name.

        A bare name has to be one tool's: no other bare name, no name of ours, and no full name or
        alias of another tool. Of two that share a bare name the second clashes with the first.
        What the servers offer does not count, so that no offer can turn a good preset bad.
        """
        if self.style is not ToolNameStyle.BARE:
            return
        pairs: dict[tuple[str, str], int] = {}
        for place, it in enumerate(tools):
            if it.enabled:
                pairs.setdefault((it.server_id, it.name), place)
        full = {
            spelt: place
            for pair, place in pairs.items()
            for spelt in (qualified_name(*pair), alias_of(*pair))
        }
        bare: dict[str, int] = {}
        for (_, name), place in pairs.items():
            other = full.get(name, bare.setdefault(name, place))
            if name in self.own_names:
                yield Clash(place=place, name=name, other=None)
            elif other != place:
                yield Clash(place=place, name=name, other=other)


ANY_NAMES = ToolNaming()
"""Names the tools of every preset."""
