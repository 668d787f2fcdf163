"""Finds the rule that hides a component from a caller, for records and explanations.

Callers are never shown it: it would reveal what is hidden (A-09, A-11).
"""

import json
from dataclasses import dataclass

from mcp_tools_proxy.config.json_file import json_path
from mcp_tools_proxy.config.last_good import preset_file
from mcp_tools_proxy.config.loader import AGENTS_FILE, CONFIGURATION_FILE
from mcp_tools_proxy.domain.audit.rule_source import SETTINGS, RuleSource
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS
from mcp_tools_proxy.policy.visibility import Denial, PresetScope
from mcp_tools_proxy.registry.permissions import AccessRules, Permissions

DEFAULT_TENANT = RuleSource(SETTINGS, "MCP_PROXY_DEFAULT_TENANT_ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinder:
    """Finds rules in the active preset, ``scope``, and in mcp.json and agents.json."""

    scope: PresetScope
    access_rules: AccessRules

    def of_denial(
        self, denial: Denial, spec: ComponentSpec, permissions: Permissions
    ) -> RuleSource | None:
        """Return the rule by which a component is denied to a caller that may not use it."""
        visibility = permissions.visibility
        match denial:
            case Denial.TENANT:
                return DEFAULT_TENANT
            case Denial.SERVER:
                return _in_profile(permissions, "client_ids")
            case Denial.PRESET:
                return _in_preset(visibility.preset or self.scope, spec.kind)
            case Denial.EXCLUDED:
                place = visibility.excluded.place_of(spec.kind, spec.server_id, spec.bare_name)
                return _in_profile(permissions, "exclude_components", place)

    def of_name(self, kind: Kind, name: str, permissions: Permissions) -> RuleSource | None:
        """Return the rule by which a name that is no component's is refused.

        None if there is none: then no server that may offer it does.
        """
        place = permissions.visibility.excluded.place_of(kind, None, name)
        if place is not None:
            return _in_profile(permissions, "exclude_components", place)
        server_id, _, bare_name = name.partition(":")
        if server_id not in self.access_rules.servers:
            return None
        excluded = self.access_rules.exclude.get(server_id, NO_EXCLUSIONS)
        place = excluded.place_of(kind, server_id, bare_name)
        if place is not None:
            path = json_path(("mcpServers", server_id, "exclude", place))
            return RuleSource(CONFIGURATION_FILE, path)
        if not self.scope.allows(kind, server_id, bare_name):
            return _in_preset(self.scope, kind)
        return None

    def of_preset(self, kind: Kind) -> RuleSource:
        """Return the rule of the active preset for a kind of component."""
        return _in_preset(self.scope, kind)


def _in_profile(permissions: Permissions, key: str, place: int | None = None) -> RuleSource:
    """Return a place in an agent's profile, which is selected by its name (RFC 9535, filters)."""
    name = json.dumps(permissions.agent)
    steps = (key,) if place is None else (key, place)
    return RuleSource(AGENTS_FILE, f"$.agents[?@.name=={name}]{json_path(steps)[1:]}")


def _in_preset(scope: PresetScope, kind: Kind) -> RuleSource:
    return RuleSource(preset_file(scope.preset_id), f"$.{kind.value}s")
