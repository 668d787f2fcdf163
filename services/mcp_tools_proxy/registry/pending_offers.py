"""What a server may offer whose first connection attempt is not over.

The items of such a server are in no table yet. Whether a call may be for one of them is decided by
the active preset and the agent's profile alone (contract §6).
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.policy.aliases import alias_of, impersonates_server, qualified_name
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.visibility import NO_SCOPE, PresetScope
from mcp_tools_proxy.registry.access_rules import Permissions


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOffers:
    """Decides what pending servers may offer to a caller.

    ``scope`` is the active preset, ``exclude`` each server's exclusions by server id, ``servers``
    the ids of all servers of mcp.json.
    """

    scope: PresetScope = NO_SCOPE
    exclude: Mapping[str, Exclusions] = field(default_factory=dict)
    servers: Container[str] = ()

    def may_offer(self, server_id: str, kind: Kind, name: str, permissions: Permissions) -> bool:
        """Return whether ``name`` may mean an item of this server that the caller may use."""
        if kind is Kind.RESOURCE and self._is_excluded(server_id, name, permissions):
            return False
        return any(
            self._allows(server_id, kind, bare, permissions)
            for bare in self._bare_names(server_id, kind, name)
        )

    def are_named(self, kind: Kind) -> bool:
        """Return whether the preset names each item of this kind that it has."""
        return self.scope.named(kind) is not None

    def may_list(self, server_id: str, kind: Kind, permissions: Permissions) -> bool:
        """Return whether the caller's list may have an item of this server."""
        names = self.scope.named(kind)
        if names is None:
            return server_id in self.scope.servers and permissions.visibility.may_allow(
                kind, server_id
            )
        return any(
            self._allows(server_id, kind, name, permissions)
            for named_id, name in names
            if named_id == server_id
        )

    def _allows(self, server_id: str, kind: Kind, name: str, permissions: Permissions) -> bool:
        if self.exclude.get(server_id, NO_EXCLUSIONS).matches(kind, server_id, name):
            return False
        allowed = self.scope.allows(kind, server_id, name)
        return allowed and permissions.visibility.denial(kind, server_id, name) is None

    def _is_excluded(self, server_id: str, uri: str, permissions: Permissions) -> bool:
        excluded = (self.exclude.get(server_id, NO_EXCLUSIONS), permissions.visibility.excluded)
        return any(it.matches_uri(server_id, uri) for it in excluded)

    def _bare_names(self, server_id: str, kind: Kind, name: str) -> Iterator[str]:
        """Yield the names that the server may have for the item that a caller calls ``name``."""
        prefix = qualified_name(server_id, "")
        bare_names = [] if impersonates_server(kind, server_id, name, self.servers) else [name]
        if name.startswith(prefix):
            bare_names.append(name[len(prefix) :])
        yield from bare_names
        renamed = self.scope.renamed(kind, name)
        if renamed is not None and renamed[0] == server_id:
            yield renamed[1]
        if kind is Kind.TOOL:
            tools = (tool for named_id, tool in self.scope.tools if named_id == server_id)
            yield from (tool for tool in tools if alias_of(server_id, tool) == name)
        elif kind is Kind.RESOURCE:
            for uri in bare_names:
                yield from self._templates(server_id, uri)

    def _templates(self, server_id: str, uri: str) -> Iterator[str]:
        """Yield each template of the preset whose text before the first variable begins the URI."""
        for named_id, key in self.scope.resources or ():
            before, brace, _ = key.partition("{")
            if named_id == server_id and brace and uri.startswith(before):
                yield key
