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
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET
from mcp_tools_proxy.domain.offers.definitions import LOCK_FILE
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.document_tools import DOCUMENT_TOOLS
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS
from mcp_tools_proxy.policy.visibility import Denial, PresetScope
from mcp_tools_proxy.registry.access_rules import AccessRules, Permissions
from mcp_tools_proxy.registry.unlisted_offers import UnlistedOffers

NO_PRESET = RuleSource(CONFIGURATION_FILE, "$.defaultPresetId")
"""The rule while no preset is active: none is chosen."""

NOT_AS_LOCKED = RuleSource(LOCK_FILE, "$.items")
"""The rule by which an item is quarantined."""

CHOSEN_TOOLS = RuleSource(SETTINGS, "MCP_PROXY_DOCUMENT_TOOLS")
"""The rule by which a document tool does not exist."""

DEFAULT_TENANT = RuleSource(SETTINGS, "MCP_PROXY_DEFAULT_TENANT_ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinder:
    """Finds rules in the active preset, ``scope``, and in mcp.json and agents.json."""

    scope: PresetScope
    access_rules: AccessRules

    def of_denial(
        self, denial: Denial, spec: ComponentSpec, permissions: Permissions, name: str
    ) -> RuleSource | None:
        """Return the rule by which a component is denied to a caller that named it ``name``."""
        visibility = permissions.visibility
        match denial:
            case Denial.TENANT:
                return DEFAULT_TENANT
            case Denial.SERVER | Denial.DOCUMENT_TOOLS:
                return in_profile(permissions.agent, denial.value)
            case Denial.PRESET:
                return _in_preset(visibility.preset or self.scope, spec.kind)
            case Denial.BIND:
                return in_profile(permissions.agent, "bind", spec.name)
            case Denial.EXCLUDED:
                excluded = visibility.excluded
                place = excluded.place_of(spec.kind, spec.server_id, spec.bare_name)
                if place is None:  # a URI of a template
                    place = excluded.place_of(spec.kind, spec.server_id, name)
                if place is None:
                    return self._in_server(spec.server_id, spec.kind, name)
                return in_profile(permissions.agent, "exclude_components", place)

    def of_withheld(
        self, kind: Kind, name: str, offers: UnlistedOffers
    ) -> tuple[RuleSource, str] | None:
        """Return the rule by which an item is withheld from everyone, and its server's id."""
        if (quarantined := offers.quarantine.find(kind, name)) is not None:
            return NOT_AS_LOCKED, quarantined.server_id
        if (guarded := offers.guarded.find(kind, name)) is not None:
            return offers.guard_rules[guarded], guarded.server_id
        if (unbound := offers.unbound.find(kind, name)) is not None:
            path = json_path(("mcpServers", self.access_rules.key_of(unbound.server_id), "bind"))
            return RuleSource(CONFIGURATION_FILE, path), unbound.server_id
        return None

    def of_name(
        self, kind: Kind, name: str, permissions: Permissions, server_id: str | None
    ) -> RuleSource | None:
        """Return the rule by which a name that is no component's is refused.

        ``server_id`` is the server that has a prompt or resource of the name, or that a tool is
        named with. None if there is no rule: then no server that may offer it does.
        """
        place = permissions.visibility.excluded.place_of(kind, None, name)
        if place is not None:
            return in_profile(permissions.agent, "exclude_components", place)
        if kind is Kind.TOOL and name in DOCUMENT_TOOLS and name != "view_doc_page":
            return CHOSEN_TOOLS
        if server_id is None or server_id not in self.access_rules.servers:
            return None
        bare_name = name.removeprefix(qualified_name(server_id, ""))
        in_server = self._in_server(server_id, kind, bare_name)
        if in_server is not None:
            return in_server
        if not self.scope.allows(kind, server_id, bare_name):
            return _in_preset(self.scope, kind)
        return None

    def _in_server(self, server_id: str | None, kind: Kind, name: str) -> RuleSource | None:
        """Return the entry of mcp.json by which a server's item is hidden from everyone."""
        excluded = self.access_rules.exclude.get(server_id or "", NO_EXCLUSIONS)
        place = excluded.place_of(kind, server_id, name)
        if place is None or server_id is None:
            return None
        path = json_path(("mcpServers", self.access_rules.key_of(server_id), "exclude", place))
        return RuleSource(CONFIGURATION_FILE, path)


def in_profile(agent: str | None, key: str, place: int | str | None = None) -> RuleSource:
    """Return a place in an agent's profile, which is selected by its name (RFC 9535, filters)."""
    name = json.dumps(agent)
    steps = (key,) if place is None else (key, place)
    return RuleSource(AGENTS_FILE, f"$.agents[?@.name=={name}]{json_path(steps)[1:]}")


def _in_preset(scope: PresetScope, kind: Kind) -> RuleSource:
    if scope.preset_id in ("", EMPTY_PRESET.preset_id):
        return NO_PRESET
    return RuleSource(preset_file(scope.preset_id), f"$.{kind.value}s")
