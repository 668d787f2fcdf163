"""The configuration files as a whole, and what can be wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in a configuration file.

    ``path`` is a JSON path (``$.mcpServers.notes.url``), ``$`` for the whole file. The message
    never quotes a value that may be secret.
    """

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.path}: {self.message}"


class InvalidConfig(Exception):
    """A configuration file cannot be used; ``problems`` has all that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One item of one server; ``name`` is a resource's key where it names a resource (P-12)."""

    server_id: str
    name: str
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What may be seen and used (P-01 … P-12).

    ``prompts`` or ``resources`` None leaves that kind unrestricted on the servers in scope: those
    that any reference names. ``()`` allows none of it.
    """

    preset_id: str
    name: str
    tools: tuple[Reference, ...] = ()
    prompts: tuple[Reference, ...] | None = None
    resources: tuple[Reference, ...] | None = None


EMPTY_PRESET = Preset(preset_id="__empty__", name="Empty", prompts=(), resources=())
"""Allows nothing; active while no other preset is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An item that the active preset names and no server offers."""

    kind: Kind
    server_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What ``mcp.json`` says; the default is that of a missing file."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    default_preset_id: str | None = None
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Server id → spellings of what nobody may see of it (A-01); not part of its ServerConfig,
    so that a session outlives a change of it."""
    warnings: tuple[Problem, ...] = ()
    """What is odd but does no harm: unknown keys, ``{VAR}`` left as it is."""
    invalid: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Server id → what is wrong with its entry. ``servers`` has its last good one, if any."""
    order: tuple[str, ...] = ()
    """The ids of all servers of the file, in its order."""

    @property
    def server_ids(self) -> frozenset[str]:
        """The ids of all servers, also of those whose entry is wrong."""
        return frozenset((*self.servers, *self.invalid))

    def with_last_good(self, before: Self) -> Self:
        """Give it with the last good entry of each server whose entry is wrong now."""
        kept = {it for it in self.invalid if it in before.servers and it not in self.servers}
        if not kept:
            return self
        servers = {**self.servers, **{it: before.servers[it] for it in kept}}
        exclude = {it: before.exclude[it] for it in kept if it in before.exclude}
        return replace(
            self,
            servers={it: servers[it] for it in self.order if it in servers},
            exclude={**self.exclude, **exclude},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetSummary:
    """One preset that could be chosen."""

    preset_id: str
    name: str
