"""An agent profile: what one agent may use of what everybody may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.configuration import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """One entry of agents.json; each field only narrows (A-14).

    ``client_ids`` are the downstream servers that it may use: None is all of them, empty is none
    (A-04). ``exclude_components`` are spellings of components that it may not use (A-05, A-18).
    ``preset_id`` names a preset that narrows the active one further.
    """

    name: str
    client_ids: tuple[str, ...] | None = None
    exclude_components: tuple[str, ...] = ()
    preset_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """What ``agents.json`` says: the profiles by name. The default is that of a missing file."""

    profiles: Mapping[str, AgentProfile] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
    """What is odd and does no harm: unknown keys."""
