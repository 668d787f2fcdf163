"""The guards that are on, and for what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.guards import GuardRules, strictest
from mcp_tools_proxy.policy.guards.screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSet:
    """The guards of one registry; there is no set where none is on.

    ``by_server`` has those of servers' entries, ``preset`` those of the active preset, which hold
    for document tools, too, and ``by_agent`` those of presets that profiles name. ``hosts`` are the
    known ones of each server.
    """

    preset: GuardRules = field(default_factory=dict)
    by_server: Mapping[str, GuardRules] = field(default_factory=dict)
    by_agent: Mapping[str, GuardRules] = field(default_factory=dict)
    hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def for_calls(self, server_id: str | None, agent: str | None) -> Screen | None:
        """Return the guards of calls to a server, or to document tools; None if all are off."""
        own = self.by_server.get(server_id or "", {})
        return self._screen(
            strictest((own, self.preset, self.by_agent.get(agent or "", {}))), server_id
        )

    def for_definitions(self, server_id: str) -> Screen | None:
        """Return the guards of a server's definitions; None if all are off.

        All callers share the definitions, so the guards of every preset that a profile names count.
        """
        own = self.by_server.get(server_id, {})
        return self._screen(strictest((own, self.preset, *self.by_agent.values())), server_id)

    def _screen(self, rules: GuardRules, server_id: str | None) -> Screen | None:
        if not rules:
            return None
        return Screen(rules=rules, hosts=self.hosts.get(server_id or "", frozenset()))
