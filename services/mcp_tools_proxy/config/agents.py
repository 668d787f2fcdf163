"""agents.json: its schema, and the permissions compiled from it and its presets.

The last valid version of each file stays active. A preset that was never valid counts as empty,
so that a mistake never widens rights. Unchanged values stay the same objects, and agents with equal
rights share one ``Visibility``. The docstrings of the models are published.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, Strict, model_validator
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import (
    AgentBind,
    Name,
    SnakeCaseModel,
    bindings_of,
    refuse_misplaced,
)
from mcp_tools_proxy.config.json_file import (
    Location,
    first_problems,
    json_path,
    limit_problems,
    load_or_keep_last_good,
    read_if_there,
)
from mcp_tools_proxy.config.limits import RunLimitsEntry
from mcp_tools_proxy.config.preset_files import (
    LAST_GOOD,
    LoadedPreset,
    PresetId,
    PresetMissing,
    inactive_preset_problems,
    load_preset,
    preset_file,
)
from mcp_tools_proxy.config.server_entry import MISSPELT_GUARDS, means_guards
from mcp_tools_proxy.config.unknown_keys import (
    ExpectedKeys,
    also_at,
    duplicate_names,
    unknown_keys,
    validated,
    warnings_of,
)
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.configuration import (
    AgentProfile,
    Agents,
    Configuration,
    InvalidConfig,
    Problem,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import (
    MAX_NAME_CHARS,
    MIN_NAME_CHARS,
    SERVER_NAMES,
    ListOptions,
    SchemaStyle,
)
from mcp_tools_proxy.domain.run import NO_QUOTA
from mcp_tools_proxy.policy.document_tools import ALL, DOCUMENT_TOOLS, NONE, chosen_tools
from mcp_tools_proxy.policy.visibility import NO_SCOPE, PresetScope, Visibility
from mcp_tools_proxy.wire.identifiers import MAX_DOCUMENTS, Identifier, server_id_of, with_server_id
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

AGENTS_FILE = "agents.json"


NO_AGENTS = Agents()
"""The object that ``load_agents`` returns without an agents.json: compare with ``is``."""


_NO_AGENT_IS_KNOWN = Problem(
    file=AGENTS_FILE,
    path="$",
    message=(
        "until it is fixed, agents are unknown, and calls without an agent are refused too, "
        "unless MCP_PROXY_REQUIRE_AGENT is false"
    ),
)


KEYS_OF_PROFILES = ("bind", "documents")
"""Restricting keys of an entry or profile, without effect at the root of the file."""


_DocumentTools = Annotated[
    frozenset[str] | None,
    BeforeValidator(lambda choice: None if choice is None else chosen_tools(choice)),
    Published(
        {
            "anyOf": [
                {"type": "string", "enum": [ALL, NONE]},
                {"type": "array", "items": {"type": "string", "enum": list(DOCUMENT_TOOLS)}},
                {"type": "null"},
            ]
        }
    ),
]


_NameStyle = Annotated[
    ToolNameStyle, Strict(False), Published({"type": "string", "enum": list(ToolNameStyle)})
]


_Schemas = Annotated[
    SchemaStyle, Strict(False), Published({"type": "string", "enum": list(SchemaStyle)})
]


MISSPELT = {
    **dict.fromkeys(("clientIds", "client-ids", "clients", "servers", "mcp_servers"), "client_ids"),
    **dict.fromkeys(("excludeComponents", "exclude-components", "exclude"), "exclude_components"),
    **dict.fromkeys(("presetId", "preset_id"), "preset"),
    **dict.fromkeys(
        ("doc_id", "doc_ids", "docIds", "docs", "document", "document_ids"), "documents"
    ),
    **dict.fromkeys(("documentTools", "document-tools", "doc_tools"), "document_tools"),
    **dict.fromkeys(("binding", "bindings", "binds", "bound"), "bind"),
}
"""Misspelt restricting keys of a profile, and the right spellings.

They (and similar keys) are refused, because an agent whose restriction is ignored would see more
than intended.
"""


_OF_OTHERS = ("guards", "sandbox")
"""Keys of servers' entries and presets, without effect in a profile."""


class AgentEntry(SnakeCaseModel):
    """The permissions and list options of one agent.

    An agent never gets more than its callers have. All keys restrict it, except `sources`,
    `tool_name_style`, `schemas` and `name_max`."""

    model_config = ConfigDict(
        json_schema_extra={
            "propertyNames": {"not": {"enum": [*MISSPELT, *_OF_OTHERS, *MISSPELT_GUARDS]}}
        }
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_misspelt(cls, entry: object) -> object:
        for key in entry if isinstance(entry, Mapping) else ():
            meant = None if key in cls.model_fields else meant_key(key)
            if meant is not None:
                raise ValueError(f"has the key {quote(key)}, which should be {meant}")
            if is_of_others(key):
                raise ValueError(
                    f"has the key {quote(key)}, which a profile does not have: set guards in a "
                    "preset and name it in preset, or set them in the server's entry"
                )
        return entry

    name: Identifier = Field(examples=["researcher"])
    """The agent's name, as sent in `agent`; 1 to 256 characters."""
    client_ids: list[Name] | None = Field(default=None, examples=[["notes"]])
    """Ids of the downstream servers that the agent may use. If omitted or null: all. An empty list:
    none. Document tools belong to no server and are not affected."""
    exclude_components: list[Name] | None = Field(
        default=None, examples=[["delete_note", "notes:search", "prompt:draft"]]
    )
    """Items that the agent may not use: `name` of any server or `server_id:name`; the prefix
    `tool:`, `prompt:` or `resource:` limits it to that kind. A resource's name is its URI. Document
    tools can be excluded, too."""
    bind: AgentBind = Field(default={}, examples=[{"tickets:find": {"project": "DOCS"}}])
    """Constant arguments that the gateway fills in for this agent: `server_id:tool` → path → value.
    They are hidden from the agent's lists."""
    preset: PresetId | None = Field(default=None, examples=["work"])
    """Id of a preset. The agent may use only items allowed by both this and the active preset."""
    documents: Annotated[list[Identifier], Field(max_length=MAX_DOCUMENTS)] | None = Field(
        default=None, examples=[["handbook"]]
    )
    """Ids of the documents that the agent is limited to. If omitted or null: all that its user may
    read. An empty list: none."""
    document_tools: _DocumentTools = Field(default=None, examples=["none", ["read_doc_pages"]])
    """Document tools of the gateway that the agent may use: `all`, `none`, or a list of names.
    MCP_PROXY_DOCUMENT_TOOLS may limit them further. If omitted or null: all. Without
    `read_doc_pages`, documents are not resources either."""
    sources: bool | None = Field(default=None, examples=[False])
    """Whether answers of document tools include `sources` by default; a request can override it. If
    omitted or null: MCP_PROXY_SOURCES."""
    tool_name_style: _NameStyle | None = Field(default=None, examples=["alias"])
    """How the agent's lists name the servers' tools: `server` (`server_id:tool`), `alias`, or
    `bare` (the server's own name). If omitted or null: MCP_PROXY_TOOL_NAME_STYLE."""
    schemas: _Schemas | None = Field(default=None, examples=["plain"])
    """Schema style of the agent's MCP lists: `original`, or `plain` for clients that support few
    keywords. If omitted or null: original."""
    name_max: Annotated[int, Field(ge=MIN_NAME_CHARS, le=MAX_NAME_CHARS)] | None = Field(
        default=None, examples=[48]
    )
    """Longest alias in the agent's MCP lists, for clients that add a prefix. If omitted or null:
    MCP_PROXY_NAME_MAX."""
    run: RunLimitsEntry | None = Field(default=None, examples=[{"calls": 50}])
    """Limits of each run with this agent, in addition to those of settings and limits.json."""


def is_of_others(key: str) -> bool:
    """Return whether a key (or its correct spelling) belongs to servers' entries and presets."""
    return key in _OF_OTHERS or means_guards(key)


def meant_key(key: str) -> str | None:
    """Return the restricting key that ``key`` misspells; None without a similar one."""
    return MISSPELT.get(key) or closest_match(key.casefold(), sorted(set(MISSPELT.values())))


class AgentsFile(SnakeCaseModel):
    """The agents of the gateway and their permissions."""

    model_config = ConfigDict(title="MCP Tools Proxy: agents.json")

    @model_validator(mode="before")
    @classmethod
    def _refuse_keys_of_profiles(cls, file: object) -> object:
        refuse_misplaced(file, KEYS_OF_PROFILES, "a profile")
        return file

    agents: list[AgentEntry] = Field(examples=[[{"name": "researcher", "client_ids": ["notes"]}]])
    """Agent profiles with unique names. If there are any, each request must name one in `agent`,
    unless MCP_PROXY_REQUIRE_AGENT is false."""


_OF_THE_MODEL = "is for the LLM runtime and is ignored here"


OF_AGENT: Mapping[str, str] = dict.fromkeys(
    (
        *("auto", "description", "include_history", "llm", "llm_config_id", "max_iterations"),
        *("max_tokens", "model", "system_prompt", "temperature"),
    ),
    _OF_THE_MODEL,
)
"""Advice for unknown keys of a profile in agents.json.

Misspelt restricting keys are refused instead: ``MISSPELT``.
"""


_AGENT = ExpectedKeys(
    AgentEntry, OF_AGENT, is_reported=lambda key: meant_key(key) is None and not is_of_others(key)
)


AGENTS = ExpectedKeys(AgentsFile, {}, {"agents": _AGENT})


def build_agents(file: AgentsFile, *, warnings: tuple[Problem, ...]) -> Agents:
    """Build the agents, whose names must be unique (A-04, A-07); see ``duplicate_names``."""
    return Agents(
        profiles={
            entry.name: AgentProfile(
                name=entry.name,
                server_ids=None if entry.client_ids is None else tuple(entry.client_ids),
                exclude_components=tuple(entry.exclude_components or ()),
                preset_id=entry.preset,
                documents=None if entry.documents is None else frozenset(entry.documents),
                document_tools=entry.document_tools,
                sources=entry.sources,
                bindings={
                    with_server_id(tool): bindings_of(values) for tool, values in entry.bind.items()
                },
                run=NO_QUOTA if entry.run is None else entry.run.quota,
                list_options=ListOptions(
                    name_style=entry.tool_name_style,
                    schemas=entry.schemas,
                    name_max=entry.name_max,
                ),
            )
            for entry in file.agents
        },
        warnings=warnings,
    )


def agents_warnings(file_name: str, written: object) -> tuple[Problem, ...]:
    """Return warnings about unknown keys of agents.json."""
    return warnings_of(file_name, unknown_keys(AGENTS, written))


def load_agents(folder: Path) -> Agents:
    """Load agents.json; ``NO_AGENTS`` if it does not exist, which is normal.

    Raises InvalidConfig, also for two profiles with the same name.
    """
    path = folder / AGENTS_FILE
    written = read_if_there(path)
    if written is None:
        return NO_AGENTS
    file = validated(AgentsFile, AGENTS, path.name, written)
    if problems := duplicate_names(path.name, "agents", (it.name for it in file.agents)):
        raise InvalidConfig(problems)
    return build_agents(file, warnings=agents_warnings(path.name, written))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPreset:
    """The last valid version of a preset, compiled once for all profiles that name it."""

    loaded: LoadedPreset
    scope: PresetScope = field(compare=False)

    @classmethod
    def of(cls, loaded: LoadedPreset, before: Self | None) -> Self:
        """Compile a preset, or reuse the scope of ``before`` if the preset is unchanged."""
        if before is not None and before.loaded.preset == loaded.preset:
            return cls(loaded=loaded, scope=before.scope)
        return cls(loaded=loaded, scope=PresetScope.of(loaded.preset))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAgents:
    """The active agents. Compiled values depend on the other fields and are not compared."""

    agents: Agents | None = None
    """None until agents.json was first read or found to be absent."""
    presets: Mapping[str, CompiledPreset] = field(default_factory=dict)
    """By id, without presets that were never valid."""
    visibilities: Mapping[str, Visibility] = field(default_factory=dict, compare=False)
    """By the agent's name."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_agent_policies(
    folder: Path, before: ActiveAgents, configuration: Configuration | None
) -> ActiveAgents:
    """Load agents.json and its presets, and return the state that follows ``before``. Blocks.

    ``configuration`` is that of mcp.json, None if it was never valid.
    """
    agents, problems = load_or_keep_last_good(
        partial(load_agents, folder), before.agents, absent=NO_AGENTS, file=AGENTS_FILE
    )
    if agents is None:
        return ActiveAgents(problems=(*problems, _NO_AGENT_IS_KNOWN))
    presets, preset_problems = _presets(folder, agents, before.presets)
    return ActiveAgents(
        agents=agents,
        presets=presets,
        visibilities=_visibilities(agents, presets, before),
        problems=problems + preset_problems,
        warnings=(
            *agents.warnings,
            *_unknown_servers(agents, configuration),
            *(warning for preset in presets.values() for warning in preset.loaded.warnings),
        ),
    )


def _presets(
    folder: Path, agents: Agents, before: Mapping[str, CompiledPreset]
) -> tuple[Mapping[str, CompiledPreset], tuple[Problem, ...]]:
    """Load the presets of all profiles; return the active versions and the problems."""
    presets: dict[str, CompiledPreset] = {}
    problems: list[Problem] = []
    for preset_id, users in _users(agents).items():
        last_good = before.get(preset_id)
        try:
            known = None if last_good is None else last_good.loaded
            loaded = load_preset(folder, preset_id, known=known)
        except (PresetMissing, InvalidConfig) as error:
            if last_good is None:
                problems += _never_loaded(preset_id, error, users)
            else:
                presets[preset_id] = last_good
                problems += inactive_preset_problems(preset_id, error, LAST_GOOD)
        else:
            presets[preset_id] = CompiledPreset.of(loaded, last_good)
    return presets, tuple(problems)


def _users(agents: Agents) -> Mapping[str, list[int]]:
    """Return the indexes of the agents that name a preset, by preset id."""
    users: dict[str, list[int]] = {}
    for index, profile in enumerate(agents.profiles.values()):
        if profile.preset_id is not None:
            users.setdefault(profile.preset_id, []).append(index)
    return users


def _never_loaded(
    preset_id: str, error: PresetMissing | InvalidConfig, users: list[int]
) -> Iterator[Problem]:
    is_broken = isinstance(error, InvalidConfig)
    reason = (
        "has problems: fix it" if is_broken else "does not exist: create it, or name another preset"
    )
    message = f"{preset_file(preset_id)} {reason}; until then the agent sees nothing of any server"
    yield from limit_problems(
        AGENTS_FILE,
        [
            Problem(file=AGENTS_FILE, path=json_path(("agents", index, "preset")), message=message)
            for index in users
        ],
    )
    if isinstance(error, InvalidConfig):
        yield from error.problems


def _visibilities(
    agents: Agents, presets: Mapping[str, CompiledPreset], before: ActiveAgents
) -> Mapping[str, Visibility]:
    """Compile the profiles, reusing the results in ``before``."""
    known = before.agents.profiles if before.agents else {}
    compiled = {_nameless(profile): before.visibilities[name] for name, profile in known.items()}
    visibilities: dict[str, Visibility] = {}
    for name, profile in agents.profiles.items():
        scope = _scope(profile, presets)
        nameless = _nameless(profile)
        visibility = compiled.get(nameless)
        if visibility is None or visibility.preset is not scope:
            visibility = compiled[nameless] = Visibility.of(profile, scope)
        visibilities[name] = visibility
    return visibilities


def _nameless(profile: AgentProfile) -> AgentProfile:
    """Return a profile without its name, so that profiles with equal rights compare equal."""
    return replace(profile, name="", list_options=SERVER_NAMES, bindings={})


def _scope(profile: AgentProfile, presets: Mapping[str, CompiledPreset]) -> PresetScope | None:
    if profile.preset_id is None:
        return None
    preset = presets.get(profile.preset_id)
    return NO_SCOPE if preset is None else preset.scope


def _unknown_servers(agents: Agents, configuration: Configuration | None) -> tuple[Problem, ...]:
    """Return a warning for each server that a profile allows but mcp.json lacks (A-15)."""
    if configuration is None:
        return ()
    known = configuration.server_ids
    unknown: dict[str, list[Location]] = {}
    for index, profile in enumerate(agents.profiles.values()):
        for place, server_id in enumerate(profile.server_ids or ()):
            if server_id_of(server_id) not in known:
                unknown.setdefault(server_id, []).append(("agents", index, "client_ids", place))

    def warning(it: tuple[str, list[Location]]) -> Problem:
        server_id, (first, *others) = it
        hint = did_you_mean(closest_match(server_id, known), ", so it is ignored")
        message = f"{quote(server_id)} is not a server in mcp.json{hint}{also_at(others)}"
        return Problem(file=AGENTS_FILE, path=json_path(first), message=message)

    return first_problems(AGENTS_FILE, list(unknown.items()), warning)
