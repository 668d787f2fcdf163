"""The one schema of the configuration files: models that validate them and publish JSON Schema.

``python -m mcp_tools_proxy.config.schema [FOLDER]`` writes the files that ``PUBLISHED`` names, for
editors. The docstrings of models and fields are part of these files. The loader accepts what they
accept, except for what JSON Schema cannot express: unset variables, repeated keys, two agents or
rules of one name, a preset's id that differs from its file's name, other misspelt keys of an agent
or a server.
"""

import json
import re
import sys
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    field_validator,
    model_validator,
)
from pydantic import WithJsonSchema as Published
from pydantic.config import JsonDict

from mcp_tools_proxy.config.bind_entry import AgentBind
from mcp_tools_proxy.config.definitions.lock_file import DefinitionsLockFile
from mcp_tools_proxy.config.field_types import (
    FILE_MODEL,
    ID_PATTERN,
    ID_RULE,
    SERVER_KEYS,
    SNAKE_CASE_MODEL,
    Name,
    NotBlank,
    Number,
    OverrideName,
    Seconds,
    ServerId,
    Whole,
    keys_of,
    never_null,
    refuse_null,
)
from mcp_tools_proxy.config.guards_entry import GuardsEntry
from mcp_tools_proxy.config.limits.limits_file import LimitsFile
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    MAX_INSTRUCTIONS,
    MAX_SERVER_INSTRUCTIONS,
)
from mcp_tools_proxy.domain.list_options import MAX_NAME_CHARS, MIN_NAME_CHARS, SchemaStyle
from mcp_tools_proxy.policy.document_tools import ALL, DOCUMENT_TOOLS, NONE, chosen_tools
from mcp_tools_proxy.wire.identifiers import MAX_DOCUMENTS, Identifier
from mcp_tools_proxy.wire.problem_texts import closest_match
from mcp_tools_proxy.wire.text import quote

KEYS_OF_ENTRIES = (
    *("assertion", "bind", "bindRequired", "discoveryCaller", "forward", "guards", "isolation"),
    "sandbox",
)
KEYS_OF_PROFILES = ("bind", "documents")
"""Keys that narrow an entry or a profile, and would narrow nothing at the root of the file."""


def _refuse_misplaced(file: object, keys: Iterable[str], place: str) -> None:
    """Raise ValueError for a key that was meant to narrow, and belongs elsewhere."""
    found = sorted(file.keys() & set(keys)) if isinstance(file, Mapping) else ()
    if found:
        raise ValueError(f"has the key {found[0]}, which belongs into {place}")


class ConfigurationFile(BaseModel):
    """The downstream MCP servers of the gateway, in the format that MCP clients share."""

    model_config = ConfigDict(**FILE_MODEL, title="MCP Tools Proxy: mcp.json")

    @model_validator(mode="before")
    @classmethod
    def _refuse_keys_of_entries(cls, file: object) -> object:
        _refuse_misplaced(file, KEYS_OF_ENTRIES, "a server's entry")
        return file

    mcp_servers: dict[ServerId, ServerEntry] = Field(
        examples=[{"notes": {"command": "npx", "args": ["-y", "@scope/notes"]}}],
        json_schema_extra=SERVER_KEYS,
    )
    """Each server's id and how it is reached. A tool is called `id:tool`, so an id has no colon. A
    name with other characters than letters, digits, `_`, `-` and `.` gets an id derived from it."""
    default_preset_id: str | None = Field(default=None, examples=["work"])
    """The preset that is active after a start; the gateway writes it when a preset is chosen."""
    request_timeout_seconds: Seconds | None = Field(default=None, examples=[60])
    """Seconds for one call to any server; MCP_PROXY_TOOL_TIMEOUT_S when left out."""
    capabilities_timeout_seconds: Seconds = 30
    """Seconds for one attempt to connect, and for each list."""
    capabilities_refresh_interval_seconds: Number = 300
    """Seconds between two looks at what the servers offer; 0 or less is off, the least is 30."""


MISSPELT_OVERRIDES = ("Overrides", "over_rides", "overridden", "override", "overrule", "overrules")
"""Wrong spellings of ``overrides``.

They are refused: a text that was meant to replace a server's would not. The loader refuses every
other key that is similar as well.
"""

MISSPELT_GUARDS = ("Guards", "gaurds", "guard", "guarded", "guardrails")
"""Wrong spellings of ``guards`` in a preset, which would leave all that it names unguarded."""


def means_guards(key: str) -> bool:
    """Return whether a key misspells ``guards``."""
    if key in MISSPELT_GUARDS:
        return True
    return closest_match(key.casefold(), ["guards"], least=0.7) is not None


_NOT_MISSPELT: JsonDict = {"propertyNames": {"not": {"enum": list(MISSPELT_OVERRIDES)}}}


def means_overrides(key: str) -> bool:
    """Return whether a key misspells ``overrides``."""
    if key in MISSPELT_OVERRIDES:
        return True
    return closest_match(key.casefold(), ["overrides"], least=0.7) is not None


def _refuse_misspelt_overrides(entry: object, known: Container[str], advice: str) -> None:
    """Raise ValueError for a key that means ``overrides`` and is none of the ``known`` ones."""
    for key in entry if isinstance(entry, Mapping) else ():
        if key not in known and means_overrides(key):
            raise ValueError(f"has the key {quote(key)}, {advice}")


class TextOverrides(BaseModel):
    """What callers are shown instead of what the server says."""

    model_config = ConfigDict(**{**FILE_MODEL, "extra": "forbid"})

    description: NotBlank | None = Field(default=None, examples=["Find a ticket by its number."])
    """The description."""
    title: NotBlank | None = Field(default=None, examples=["Find a ticket"])
    """The name for people."""


class ItemOverrides(TextOverrides):
    """What callers are shown instead of what the server says, the name included."""

    name: OverrideName | None = Field(default=None, examples=["find_ticket"])
    """The name. The item is found by its own as well, and exclusions go by that one."""


class ReferenceEntry(BaseModel):
    """What the references of all three kinds have."""

    model_config = FILE_MODEL | ConfigDict(json_schema_extra=_NOT_MISSPELT)

    @model_validator(mode="before")
    @classmethod
    def _refuse_misspelt(cls, entry: object) -> object:
        _refuse_misspelt_overrides(entry, keys_of(cls), "which is spelt overrides")
        return entry

    server_id: Name = Field(examples=["notes"])
    """The server's id in mcp.json."""
    name: Name
    enabled: bool = True
    """`false` is the same as leaving the reference out."""


class ToolReference(ReferenceEntry):
    """A tool that may be used."""

    name: Name = Field(alias="toolName", examples=["search"])
    """The tool's name at its server."""
    overrides: ItemOverrides | None = None
    """What callers are shown instead of the server's description, title and name."""


class PromptReference(ReferenceEntry):
    """A prompt that may be used."""

    name: Name = Field(alias="promptName", examples=["summary"])
    """The prompt's name at its server."""
    overrides: ItemOverrides | None = None
    """What callers are shown instead of the server's description, title and name."""


class ResourceReference(ReferenceEntry):
    """A resource that may be read."""

    name: Name = Field(alias="resourceKey", examples=["file:///notes.md"])
    """The resource's URI or URI template, or its name if it has neither."""
    overrides: TextOverrides | None = None
    """What callers are shown instead of the server's description and title."""


def _check_preset_id(preset_id: str) -> str:
    if not re.fullmatch(ID_PATTERN, preset_id):
        raise ValueError(f"is no preset id: one {ID_RULE}")
    return preset_id


def _not_built_in(preset_id: str) -> str:
    if preset_id == EMPTY_PRESET.preset_id:
        raise ValueError("is the id of the built-in empty preset; choose another")
    return preset_id


_PRESET_ID = {"type": "string", "pattern": f"^{ID_PATTERN}$"}
_PresetId = Annotated[str, AfterValidator(_check_preset_id), Published(_PRESET_ID)]
_OwnPresetId = Annotated[
    str,
    AfterValidator(_check_preset_id),
    AfterValidator(_not_built_in),
    Published({**_PRESET_ID, "not": {"const": EMPTY_PRESET.preset_id}}),
]


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


PresetInstructions = (
    Annotated[str, Field(max_length=MAX_INSTRUCTIONS)]
    | dict[Name, Annotated[str, Field(max_length=MAX_SERVER_INSTRUCTIONS)]]
)


class PresetFile(BaseModel):
    """A preset: what callers may use of the downstream servers, and nothing else."""

    model_config = FILE_MODEL | ConfigDict(
        title="MCP Tools Proxy: preset_<id>.json",
        json_schema_extra={
            "propertyNames": {"not": {"enum": ["overrides", *MISSPELT_OVERRIDES, *MISSPELT_GUARDS]}}
        },
    )

    _refuse_null = field_validator("guards", mode="before")(refuse_null)

    @model_validator(mode="before")
    @classmethod
    def _refuse_overrides(cls, file: object) -> object:
        _refuse_misspelt_overrides(file, keys_of(cls), "which belongs to one tool or prompt")
        for key in file if isinstance(file, Mapping) else ():
            if key not in keys_of(cls) and means_guards(key):
                raise ValueError(f"has the key {quote(key)}, which is spelled guards")
        return file

    id: _OwnPresetId = Field(examples=["work"])
    """The preset's id, the same as in the file's name."""
    name: NotBlank = Field(examples=["Work"])
    """What people call the preset."""
    description: str | None = Field(default=None, examples=["Search and notes, read only"])
    """What the preset is for."""
    tools: list[ToolReference] = Field(
        default=[], examples=[[{"serverId": "notes", "toolName": "search"}]]
    )
    """The tools that may be used; all others are neither listed nor callable."""
    prompts: list[PromptReference] | None = Field(
        default=None, examples=[[{"serverId": "notes", "promptName": "summary"}]]
    )
    """The prompts that may be used. Left out or null: all prompts of the servers that this preset
    names anywhere. An empty list: none."""
    resources: list[ResourceReference] | None = Field(
        default=None, examples=[[{"serverId": "notes", "resourceKey": "file:///notes.md"}]]
    )
    """The resources that may be read. Left out or null: all resources of the servers that this
    preset names anywhere. An empty list: none."""
    guards: GuardsEntry | None = Field(
        json_schema_extra=never_null, default=None, examples=[{"secrets": "redact"}]
    )
    """What is looked for in definitions, arguments and results of all that callers use by this
    preset, document tools included. Where a server has guards, too, the stricter one counts."""
    instructions: PresetInstructions | None = Field(
        default=None, examples=[{"notes": "Search before you write.", "tickets": ""}]
    )
    """What callers are told instead of the servers' instructions: one text for all servers, or a
    text for each server id. An empty text: none. Left out or null: what the servers say."""
    created_at_epoch_millis: Whole | None = Field(default=None, examples=[1766000000000])
    """When the preset was made, in milliseconds since 1970; lists are in this order."""


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
"""Wrong spellings of the keys that narrow a profile, and the right ones.

They are refused, not just warned about: an agent whose restriction is ignored would see more than
was meant. The loader refuses every other key that is similar to one of these as well.
"""


_OF_OTHERS = ("guards", "sandbox")
"""Keys of servers' entries and presets: in a profile they would restrict nothing."""


class AgentEntry(BaseModel):
    """What one agent may see and use of what everybody may.

    Each key only takes away, but `sources`, `tool_name_style`, `schemas` and `name_max`."""

    model_config = SNAKE_CASE_MODEL | ConfigDict(
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
                raise ValueError(f"has the key {quote(key)}, which is spelt {meant}")
            if is_of_others(key):
                raise ValueError(
                    f"has the key {quote(key)}, which a profile does not have: set guards in a "
                    "preset and name it in preset, or set them in the server's entry"
                )
        return entry

    name: Identifier = Field(examples=["researcher"])
    """The agent's name, as requests give it in `agent`; 1 to 256 characters."""
    client_ids: list[Name] | None = Field(default=None, examples=[["notes"]])
    """The ids of the downstream servers that it may use. Left out or null: all. An empty list:
    none. Document tools are no server's."""
    exclude_components: list[Name] | None = Field(
        default=None, examples=[["delete_note", "notes:search", "prompt:draft"]]
    )
    """What it may not use: `name` or `server_id:name`, or either with `tool:`, `prompt:` or
    `resource:` in front for that kind only. A resource's name is its URI."""
    bind: AgentBind = Field(default={}, examples=[{"tickets:find": {"project": "DOCS"}}])
    """Arguments of the servers' tools that the gateway fills in for this agent, with constants:
    `server_id:tool` → path → value. Its lists do not show them."""
    preset: _PresetId | None = Field(default=None, examples=["work"])
    """The id of a preset: the agent may use only what both that and the active one allow."""
    documents: Annotated[list[Identifier], Field(max_length=MAX_DOCUMENTS)] | None = Field(
        default=None, examples=[["handbook"]]
    )
    """The ids of the only documents that it may use. Left out or null: all that its user may read.
    An empty list: none."""
    document_tools: _DocumentTools = Field(default=None, examples=["none", ["read_doc_pages"]])
    """Which of the gateway's document tools it has: `all`, `none`, or a list of names; of these
    the setting MCP_PROXY_DOCUMENT_TOOLS may allow fewer. Left out or null: all."""
    sources: bool | None = Field(default=None, examples=[False])
    """Whether answers of document tools have `sources`, where the request does not say it. Left
    out or null: MCP_PROXY_SOURCES."""
    tool_name_style: _NameStyle | None = Field(default=None, examples=["alias"])
    """How its lists name the servers' tools: `server` (`server_id:tool`), `alias`, or `bare` (as
    the server calls it). Left out or null: MCP_PROXY_TOOL_NAME_STYLE."""
    schemas: _Schemas | None = Field(default=None, examples=["plain"])
    """How its MCP lists write schemas: `original`, or `plain` for clients that know few keywords.
    Left out or null: original."""
    name_max: Annotated[int, Field(ge=MIN_NAME_CHARS, le=MAX_NAME_CHARS)] | None = Field(
        default=None, examples=[48]
    )
    """Longest alias in its MCP lists, for clients that add a prefix. Left out or null:
    MCP_PROXY_NAME_MAX."""


def is_of_others(key: str) -> bool:
    """Return whether a key, or what it misspells, belongs to servers' entries and presets."""
    return key in _OF_OTHERS or means_guards(key)


def meant_key(key: str) -> str | None:
    """Return the key of a profile that ``key`` misspells, of those that narrow it; else None."""
    return MISSPELT.get(key) or closest_match(key.casefold(), sorted(set(MISSPELT.values())))


class AgentsFile(BaseModel):
    """The agents of the gateway, each with what it may see and use."""

    model_config = SNAKE_CASE_MODEL | ConfigDict(title="MCP Tools Proxy: agents.json")

    @model_validator(mode="before")
    @classmethod
    def _refuse_keys_of_profiles(cls, file: object) -> object:
        _refuse_misplaced(file, KEYS_OF_PROFILES, "a profile")
        return file

    agents: list[AgentEntry] = Field(examples=[[{"name": "researcher", "client_ids": ["notes"]}]])
    """The profiles. With any of them, a request has to name one of them in `agent`, unless
    MCP_PROXY_REQUIRE_AGENT says otherwise. No two have the same name."""


PUBLISHED: Mapping[str, type[BaseModel]] = {
    "mcp.schema.json": ConfigurationFile,
    "agents.schema.json": AgentsFile,
    "preset.schema.json": PresetFile,
    "limits.schema.json": LimitsFile,
    "definitions.lock.schema.json": DefinitionsLockFile,
}
"""The JSON Schema files for editors, and their models."""


def published(model: type[BaseModel]) -> str:
    """Return the JSON Schema of a model, as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | model.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def publish(folder: Path) -> None:
    """Write all JSON Schema files into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in PUBLISHED.items():
        (folder / name).write_text(published(model), encoding="utf-8")


if __name__ == "__main__":
    publish(Path(*sys.argv[1:2] or ["schemas"]))
