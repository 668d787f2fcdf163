"""How a downstream tool is spelt: at our edges, and for model APIs that refuse a colon."""

import hashlib
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Reference

ALIAS_CHARS = 64
SERVER_CHARS = 24
TOOL_CHARS = 30
"""What is shown of either name where a hash of 8 has to follow; the three fit in an alias."""

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_REFUSED = re.compile(r"[^a-zA-Z0-9-]+")


def qualified_name(server_id: str, tool: str) -> str:
    """Spell the pair as ``server_id:tool``; no two pairs share one, server ids hold no colon."""
    return f"{server_id}:{tool}"


def alias_of(server_id: str, tool: str) -> str:
    """Give the pair's alias, which matches ``^[a-zA-Z0-9_-]{1,64}$`` (contract §6).

    ``server__tool`` when only the colon had to change, else a readable cut and a hash of the pair.
    The first kind always holds ``__`` and splits at the first one into its pair; the second kind
    never holds it. So two pairs share an alias only if their hashes do.
    """
    if has_plain_alias(server_id, tool):
        return f"{server_id}__{tool}"
    shown = (_readable(server_id, SERVER_CHARS), _readable(tool, TOOL_CHARS))
    return "_".join(part for part in (*shown, _hash(server_id, tool)) if part)


def has_plain_alias(server_id: str, tool: str) -> bool:
    """Tell whether only the colon has to change: the pair fits, and ``__`` splits it uniquely."""
    plain = f"{server_id}__{tool}"
    splits_uniquely = "__" not in server_id and not server_id.endswith("_")
    return splits_uniquely and len(plain) <= ALIAS_CHARS and bool(_PLAIN.fullmatch(plain))


def _readable(name: str, max_chars: int) -> str:
    return _REFUSED.sub("_", name)[:max_chars].strip("_")


def _hash(server_id: str, tool: str) -> str:
    """Hash the pair; the length in front keeps ("a", "bc") and ("ab", "c") apart."""
    pair = f"{len(server_id)}:{server_id}{tool}"
    return hashlib.sha256(pair.encode(errors="surrogatepass")).hexdigest()[:8]


class ToolNameStyle(StrEnum):
    """What a downstream tool is listed as over MCP; ours go by their own names in every style.

    ``server:tool``, the alias, or what its server calls it.
    """

    SERVER = "server"
    ALIAS = "alias"
    BARE = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameConflict:
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

    def clashes(self, tools: Sequence[Reference]) -> Iterator[NameConflict]:
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
                yield NameConflict(place=place, name=name, other=None)
            elif other != place:
                yield NameConflict(place=place, name=name, other=other)


ANY_NAMES = ToolNaming()
"""Names the tools of every preset."""


def impersonates_server(
    kind: Kind, server_id: str | None, name: str, servers: Container[str]
) -> bool:
    """Tell whether what a server calls a component is spelt like the full name of another server's
    (A-19).

    While that server is away, its calls would end here. ``servers`` are the ids of all servers. A
    tool's name with a colon always is such (contract §6); a prompt's and a URI's may hold colons,
    so there the id of a server has to be in front. Of a URI only where another one follows: its
    scheme may be the id of a server.
    """
    if kind is Kind.TOOL:
        first, separator, _ = name.partition("__")
        return ":" in name or (bool(separator) and first in servers)
    first, separator, rest = name.partition(":")
    if not separator or first == server_id or first not in servers:
        return False
    return kind is Kind.PROMPT or (":" in rest and not rest.startswith("/"))
