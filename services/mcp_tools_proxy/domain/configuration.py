"""Parsed configuration: ``mcp.json``, ``agents.json`` and presets, and problems found in them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from mcp_tools_proxy.domain.bindings import (
    NO_OVERRIDES,
    AgentBindings,
    Overrides,
    ServerBindings,
)
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.guards import GuardActions
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
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
    """A configuration file cannot be used; ``problems`` lists every error found in it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """One entry of agents.json; fields only narrow what callers may use (A-14), or shape answers.

    ``server_ids``, which the file calls ``client_ids``, are the downstream servers that the agent
    may use: None is all of them, empty is none (A-04). ``exclude_components`` names components that
    it may not use (A-05, A-18). ``preset_id`` names a preset that narrows the active one further.
    ``documents`` are the only ones that it may use, None for any that its user may read.
    ``document_tools`` are the only ones of the gateway's document tools, None for all. ``sources``
    is whether their answers have sources, and ``list_options`` how its lists are
    written, None for what the settings say. ``bindings`` are arguments of tools that are filled in
    for it, by the tool's full name.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """Contents of ``agents.json``: the profiles by name. The default stands for a missing file."""

    profiles: Mapping[str, AgentProfile] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
    """Harmless oddities: unknown keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A preset's reference to one item of one server; a resource's ``name`` is its key (P-12)."""

    server_id: str
    name: str
    enabled: bool = True
    overrides: Overrides = NO_OVERRIDES
    """What callers are shown instead of what the server says."""


MAX_SERVER_INSTRUCTIONS = 4_000
"""How many characters of one server's instructions callers are shown."""

MAX_INSTRUCTIONS = 16_000
"""How many characters of all instructions they are shown, without tags and notes on what was cut.
"""

OwnInstructions = str | Mapping[str, str]
"""A preset's instructions: one text for all servers, or texts by server id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The downstream components that may be listed and used (P-01 … P-12).

    ``prompts`` or ``resources`` None leaves that kind unrestricted on the servers in scope, which
    are all servers that a reference names. ``()`` allows none of the kind.
    """

    preset_id: str
    name: str
    tools: tuple[Reference, ...] = ()
    prompts: tuple[Reference, ...] | None = None
    resources: tuple[Reference, ...] | None = None
    guards: GuardActions = field(default_factory=dict, hash=False)
    """The guards of all that is used by this preset, document tools included."""
    instructions: OwnInstructions | None = field(default=None, hash=False)
    """What callers are told instead of the servers' instructions."""

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
"""Allows nothing; in force while no other preset is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An item that the active preset names and no server offers."""

    kind: Kind
    server_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Contents of ``mcp.json``; the default stands for a missing file."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    default_preset_id: str | None = None
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Server id → names of its components that are hidden from all callers (A-01). Kept apart from
    ServerConfig, so that a change does not restart the server's session."""
    bindings: Mapping[str, ServerBindings] = field(default_factory=dict)
    """Server id → its bound arguments; apart for the same reason."""
    guards: Mapping[str, GuardActions] = field(default_factory=dict)
    """Server id → the guards of its texts; apart for the same reason."""
    warnings: tuple[Problem, ...] = ()
    """Harmless oddities: unknown keys, ``{VAR}`` that was not replaced."""
    invalid: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Server id → problems of its entry. ``servers`` has its last good entry, if any."""
    order: tuple[str, ...] = ()
    """The ids of all servers in the file, in the file's order."""
    original_ids: Mapping[str, str] = field(default_factory=dict)
    """The names of servers in the file that cannot be ids, by the ids derived from them."""

    @property
    def server_ids(self) -> frozenset[str]:
        """The ids of all servers, those with an invalid entry included."""
        return frozenset((*self.servers, *self.invalid))

    def key_of(self, server_id: str) -> str:
        """Return the key of a server in the file."""
        return self.original_ids.get(server_id, server_id)

    def with_last_good(self, before: Self) -> Self:
        """Return a copy in which invalid entries are replaced by those of ``before``."""
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
    """A preset that can be activated, as lists of presets show it."""

    preset_id: str
    name: str
