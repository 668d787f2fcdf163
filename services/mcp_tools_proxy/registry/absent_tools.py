"""The tools that the active preset names and no server offers now: their names stay theirs.

Else a bare name of two servers' tools would mean the other one's while one server is away, and a
rogue server would receive calls that were meant for that one (A-19).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Self

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.policy.aliases import alias_of, hash_in, pair_hash, qualified_name
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.visibility import PresetScope
from mcp_tools_proxy.registry.permissions import AccessRules, Permissions

_Pair = tuple[str, str]


class AbsentTools:
    """Pairs of server id and bare name, none of which is in the registry."""

    def __init__(self, pairs: Iterable[_Pair] = ()) -> None:
        self._servers: dict[str, list[str]] = {}
        """The ids of the servers by the bare name of the tool."""
        self._full_names: set[str] = set()
        self._hashes: set[str] = set()
        for server_id, name in sorted(pairs):
            self._servers.setdefault(name, []).append(server_id)
            self._full_names |= {qualified_name(server_id, name), alias_of(server_id, name)}
            self._hashes.add(pair_hash(server_id, name))

    @classmethod
    def of(cls, scope: PresetScope, present: Iterable[ToolSpec], rules: AccessRules) -> Self:
        """Build those of a preset; a tool that its server may never show is none of them."""
        pairs = scope.tools - {(spec.server_id, spec.bare_name) for spec in present}
        return cls(it for it in pairs if _is_possible(it, rules.servers, rules.exclude))

    def owns(self, name: str) -> bool:
        """Return whether ``name`` is the qualified name or alias of an absent tool."""
        return name in self._full_names

    def owns_shortened(self, name: str) -> bool:
        """Return whether ``name`` ends in the hash of an absent tool's shortened alias."""
        return hash_in(name) in self._hashes

    def candidates(self, name: str, permissions: Permissions) -> Sequence[str]:
        """Return the qualified names of the absent tools of a bare name that a caller may use."""
        visibility = permissions.visibility
        return [
            qualified_name(server_id, name)
            for server_id in self._servers.get(name, ())
            if visibility.denial(Kind.TOOL, server_id, name) is None
        ]


NOTHING_ABSENT = AbsentTools()


def _is_possible(pair: _Pair, servers: Container[str], exclude: Mapping[str, Exclusions]) -> bool:
    """Return whether mcp.json has the server of a pair, and lets it show the tool (A-01)."""
    server_id, name = pair
    excluded = exclude.get(server_id, NO_EXCLUSIONS).matches(Kind.TOOL, server_id, name)
    return server_id in servers and not excluded
