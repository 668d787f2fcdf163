"""Parsed configuration: ``mcp.json``, ``agents.json`` and presets, with their problems."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Self

from mcp_tools_proxy.domain.bindings import (
    NO_OVERRIDES,
    AgentBindings,
    Overrides,
    ServerBindings,
)
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.guards import GuardActions
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.domain.run import NO_QUOTA, RunQuota
from mcp_tools_proxy.domain.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error or warning about a configuration file.

    ``path`` is a JSON path (``$.mcpServers.notes.url``), ``$`` for the whole file. The message
    never quotes possible secrets.
    """

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.path}: {self.message}"


class InvalidConfig(Exception):
    """A configuration file is invalid; ``problems`` lists all errors in it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """One entry of agents.json; its fields restrict callers (A-14) or shape answers.

    ``server_ids`` (in the file ``client_ids``) are the usable downstream servers: all if None, none
    if empty (A-04). ``exclude_components`` are forbidden (A-05, A-18). ``preset_id`` further
    restricts the active preset. ``documents`` and ``document_tools`` are the only usable ones, None
    for all. ``sources`` and ``list_options`` override the settings unless None. ``bindings`` are
    fixed arguments by the tool's full name. ``run`` limits each run.
    """

    name: str
    server_ids: tuple[str, ...] | None = None
    exclude_components: tuple[str, ...] = ()
    preset_id: str | None = None
    documents: frozenset[str] | None = None
    document_tools: frozenset[str] | None = None
    sources: bool | None = None
    list_options: ListOptions = SERVER_NAMES
    bindings: AgentBindings = field(default_factory=dict, hash=False)
    run: RunQuota = NO_QUOTA


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """Contents of ``agents.json``: the profiles by name. The default represents a missing file."""

    profiles: Mapping[str, AgentProfile] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A preset's reference to one item of one server; a resource's ``name`` is its key (P-12)."""

    server_id: str
    name: str
    enabled: bool = True
    overrides: Overrides = NO_OVERRIDES


MAX_SERVER_INSTRUCTIONS = 4_000
"""Characters of one server's instructions that callers receive at most."""

MAX_INSTRUCTIONS = 16_000
"""Characters of all instructions, without tags and truncation notes."""

OwnInstructions = str | Mapping[str, str]
"""A preset's instructions: one text for all servers, or texts by server id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The downstream components that callers can list and use (P-01 … P-12).

    None in ``prompts`` or ``resources`` leaves that kind unrestricted on all servers that a
    reference names; ``()`` allows none of the kind.
    """

    preset_id: str
    name: str
    tools: tuple[Reference, ...] = ()
    prompts: tuple[Reference, ...] | None = None
    resources: tuple[Reference, ...] | None = None
    guards: GuardActions = field(default_factory=dict, hash=False)
    """The guards of all components used with this preset, including document tools."""
    instructions: OwnInstructions | None = field(default=None, hash=False)

    @property
    def references(self) -> Iterator[tuple[Kind, tuple[Reference, ...]]]:
        """The references of each kind."""
        yield Kind.TOOL, self.tools
        yield Kind.PROMPT, self.prompts or ()
        yield Kind.RESOURCE, self.resources or ()

    @property
    def overridden(self) -> Iterator[tuple[Kind, Reference]]:
        """The enabled references with overrides, and their kinds."""
        for kind, references in self.references:
            for reference in references:
                if reference.enabled and reference.overrides != NO_OVERRIDES:
                    yield kind, reference


EMPTY_PRESET = Preset(preset_id="__empty__", name="Empty", prompts=(), resources=())
"""Allows nothing; active while no other preset is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An item that the active preset names but no server offers."""

    kind: Kind
    server_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Contents of ``mcp.json``; the default represents a missing file."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    default_preset_id: str | None = None
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Server id → names of components hidden from all callers (A-01). Separate from
    ServerConfig, so that a change does not restart the server's session."""
    bindings: Mapping[str, ServerBindings] = field(default_factory=dict)
    """Server id → its bound arguments; separate for the same reason."""
    guards: Mapping[str, GuardActions] = field(default_factory=dict)
    """Server id → the guards of its texts; separate for the same reason."""
    warnings: tuple[Problem, ...] = ()
    """Warnings about unknown keys and unresolved ``{VAR}``."""
    invalid: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Server id → problems of its entry. ``servers`` has its last valid entry, if any."""
    order: tuple[str, ...] = ()
    """The ids of all servers in the file, in the file's order."""
    original_ids: Mapping[str, str] = field(default_factory=dict)
    """Names in the file that are not valid ids, by the ids derived from them."""

    @property
    def server_ids(self) -> frozenset[str]:
        """The ids of all servers, including those with an invalid entry."""
        return frozenset((*self.servers, *self.invalid))

    def key_of(self, server_id: str) -> str:
        """Return the server's key in the file."""
        return self.original_ids.get(server_id, server_id)

    def with_last_good(self, before: Self) -> Self:
        """Return a copy with the entries of ``before`` for servers whose entry is invalid now."""
        kept = {it for it in self.invalid if it in before.servers and it not in self.servers}
        if not kept:
            return self
        servers = {**self.servers, **{it: before.servers[it] for it in kept}}
        exclude = {it: before.exclude[it] for it in kept if it in before.exclude}
        bindings = {it: before.bindings[it] for it in kept if it in before.bindings}
        guards = {it: before.guards[it] for it in kept if it in before.guards}
        return replace(
            self,
            servers={it: servers[it] for it in self.order if it in servers},
            exclude={**self.exclude, **exclude},
            bindings={**self.bindings, **bindings},
            guards={**self.guards, **guards},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetSummary:
    """A preset that can be activated, as shown in lists of presets."""

    preset_id: str
    name: str
