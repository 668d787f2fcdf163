"""The one predicate: may this agent see and use this component (A-03 … A-06, A-14)?

Lists and calls both follow ``Visibility.denial``, for every kind and every entry. A profile can
only narrow what the active preset allows (contract §6).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET, AgentProfile, Preset, Reference
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.document_tools import READS_RESOURCES, is_turned_off
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.presets import enabled, overrides_of
from mcp_tools_proxy.wire.identifiers import server_id_of

_Pair = tuple[str, str]


class Denial(Enum):
    """Why a component is denied: a field of the agent's profile, or the lack of a tenant."""

    SERVER = "client_ids"
    EXCLUDED = "exclude_components"
    BIND = "bind"
    """The profile binds an argument that the tool does not have, or has with another value."""
    DOCUMENT_TOOLS = "document_tools"
    PRESET = "preset"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetScope:
    """A preset as a predicate that does not depend on the servers' offers (P-03 … P-12)."""

    servers: frozenset[str]
    tools: frozenset[_Pair]
    prompts: frozenset[_Pair] | None
    resources: frozenset[_Pair] | None
    preset_id: str = field(default="", compare=False)
    given_names: Mapping[Kind, Mapping[str, _Pair]] = field(default_factory=dict, hash=False)
    """The items that the preset gives names to, by kind and name."""

    @classmethod
    def of(cls, preset: Preset) -> Self:
        """Compile a preset."""
        tools, prompts, resources = (
            None if references is None else frozenset(enabled(references))
            for references in (preset.tools, preset.prompts, preset.resources)
        )
        mentioned = (tools or frozenset()) | (prompts or frozenset()) | (resources or frozenset())
        return cls(
            servers=frozenset(server_id for server_id, _ in mentioned),
            tools=tools or frozenset(),
            prompts=prompts,
            resources=resources,
            preset_id=preset.preset_id,
            given_names={
                Kind.TOOL: _given_names(preset.tools),
                Kind.PROMPT: _given_names(preset.prompts or ()),
            },
        )

    def named(self, kind: Kind) -> frozenset[_Pair] | None:
        """Return the items of a kind that the preset names, None where it does not restrict it."""
        match kind:
            case Kind.TOOL:
                return self.tools
            case Kind.PROMPT:
                return self.prompts
            case Kind.RESOURCE:
                return self.resources

    def renamed(self, kind: Kind, name: str) -> _Pair | None:
        """Return the item that the preset gives a name to, None if there is none."""
        return self.given_names.get(kind, {}).get(name)

    def allows(self, kind: Kind, server_id: str, name: str) -> bool:
        """Return whether the preset allows a downstream component."""
        listed = self.named(kind)
        return server_id in self.servers if listed is None else (server_id, name) in listed


def _given_names(references: Iterable[Reference]) -> Mapping[str, _Pair]:
    overrides = overrides_of(references).items()
    return {it.name: pair for pair, it in overrides if it.name is not None}


NO_SCOPE = PresetScope.of(EMPTY_PRESET)
"""Allows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The components that one agent may use; the default is all."""

    server_ids: frozenset[str] | None = None
    excluded: Exclusions = NO_EXCLUSIONS
    preset: PresetScope | None = None
    documents: frozenset[str] | None = None
    """The only documents that the agent may use; None for all that its user may read."""
    document_tools: frozenset[str] | None = None
    """The only document tools that the agent may use; None for all."""
    sources: bool | None = None
    """Whether answers of document tools have sources, where the request does not say it."""
    unbound: frozenset[str] = frozenset()
    """Full names of the tools with an argument that the profile cannot bind."""

    @classmethod
    def of(cls, profile: AgentProfile, scope: PresetScope | None) -> Self:
        """Compile a profile; ``scope`` is that of the profile's preset, None if it names none."""
        ids = profile.server_ids
        return cls(
            server_ids=None if ids is None else frozenset(map(server_id_of, ids)),
            excluded=Exclusions(profile.exclude_components),
            preset=scope,
            documents=profile.documents,
            document_tools=profile.document_tools,
            sources=profile.sources,
        )

    def may_allow(self, kind: Kind, server_id: str) -> bool:
        """Return whether any item of this kind and server could be allowed."""
        if self.server_ids is not None and server_id not in self.server_ids:
            return False
        if self.preset is None or server_id not in self.preset.servers:
            return self.preset is None
        named = self.preset.named(kind)
        return named is None or any(named_id == server_id for named_id, _ in named)

    def denial(self, kind: Kind, server_id: str | None, name: str) -> Denial | None:
        """Return why a component is denied, None if allowed; the server is checked first (A-09).

        ``name`` is the bare name. Local components have no server; only ``exclude_components`` and
        ``document_tools`` apply to them.
        """
        if server_id is not None:
            if self.server_ids is not None and server_id not in self.server_ids:
                return Denial.SERVER
            if self.preset is not None and not self.preset.allows(kind, server_id, name):
                return Denial.PRESET
        elif self.document_tools is not None:
            needed = name if kind is Kind.TOOL else READS_RESOURCES
            if is_turned_off(needed, self.document_tools):
                return Denial.DOCUMENT_TOOLS
        if self.excluded.matches(kind, server_id, name):
            return Denial.EXCLUDED
        return Denial.BIND if self.unbound and self._is_unbound(kind, server_id, name) else None

    def _is_unbound(self, kind: Kind, server_id: str | None, name: str) -> bool:
        if kind is not Kind.TOOL or server_id is None:
            return False
        return qualified_name(server_id, name) in self.unbound
