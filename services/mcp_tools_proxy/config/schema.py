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
from mcp_tools_proxy.config.limits_file import LimitsFile
from mcp_tools_proxy.config.lock_file import DefinitionsLockFile
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
        raise ValueError(f"has the key {found[0]}, which belongs in {place}")


class ConfigurationFile(BaseModel):
    """The gateway's downstream MCP servers, in the format shared by MCP clients."""

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
    """Server ids and how to reach each server. Tools are named `id:tool`, so an id cannot contain a
    colon. A name with characters other than letters, digits, `_`, `-` and `.` is replaced by a
    derived id."""
    default_preset_id: str | None = Field(default=None, examples=["work"])
    """The preset that is active after a start. The gateway updates it when a preset is selected."""
    request_timeout_seconds: Seconds | None = Field(default=None, examples=[60])
    """Timeout for one call to any server, in seconds. Default: MCP_PROXY_TOOL_TIMEOUT_S."""
    capabilities_timeout_seconds: Seconds = 30
    """Timeout for each connection attempt and each list request, in seconds."""
    capabilities_refresh_interval_seconds: Number = 300
    """Seconds between refreshes of the servers' lists; at least 30. 0 or less turns refreshes
    off."""


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
    """Texts shown to callers instead of the server's own."""

    model_config = ConfigDict(**{**FILE_MODEL, "extra": "forbid"})

    description: NotBlank | None = Field(default=None, examples=["Find a ticket by its number."])
    """Description shown to models."""
    title: NotBlank | None = Field(default=None, examples=["Find a ticket"])
    """Display name."""


class ItemOverrides(TextOverrides):
    """Texts and name shown to callers instead of the server's own."""

    name: OverrideName | None = Field(default=None, examples=["find_ticket"])
    """Name shown to callers. The server's own name still works, and exclusions use it."""


class ReferenceEntry(BaseModel):
    """What the references of all three kinds have."""

    model_config = FILE_MODEL | ConfigDict(json_schema_extra=_NOT_MISSPELT)

    @model_validator(mode="before")
    @classmethod
    def _refuse_misspelt(cls, entry: object) -> object:
        _refuse_misspelt_overrides(entry, keys_of(cls), "which should be overrides")
        return entry

    server_id: Name = Field(examples=["notes"])
    """The server's id in mcp.json."""
    name: Name
    enabled: bool = True
    """`false` has the same effect as removing the reference."""


class ToolReference(ReferenceEntry):
    """A tool that callers may use."""

    name: Name = Field(alias="toolName", examples=["search"])
    """The tool's name at its server."""
    overrides: ItemOverrides | None = None
    """Description, title and name shown to callers instead of the server's."""


class PromptReference(ReferenceEntry):
    """A prompt that callers may use."""

    name: Name = Field(alias="promptName", examples=["summary"])
    """The prompt's name at its server."""
    overrides: ItemOverrides | None = None
    """Description, title and name shown to callers instead of the server's."""


class ResourceReference(ReferenceEntry):
    """A resource that callers may read."""

    name: Name = Field(alias="resourceKey", examples=["file:///notes.md"])
    """The resource's URI or URI template, or its name if it has neither."""
    overrides: TextOverrides | None = None
    """Description and title shown to callers instead of the server's."""


def _check_preset_id(preset_id: str) -> str:
    if not re.fullmatch(ID_PATTERN, preset_id):
        raise ValueError(f"is not a preset id: an id {ID_RULE}")
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
    """A preset: the downstream tools, prompts and resources that callers may use."""

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
                raise ValueError(f"has the key {quote(key)}, which should be guards")
        return file

    id: _OwnPresetId = Field(examples=["work"])
    """The preset's id; it must match the file name."""
    name: NotBlank = Field(examples=["Work"])
    """Display name."""
    description: str | None = Field(default=None, examples=["Search and notes, read only"])
    """Purpose of the preset."""
    tools: list[ToolReference] = Field(
        default=[], examples=[[{"serverId": "notes", "toolName": "search"}]]
    )
    """Tools that callers may use. All others are neither listed nor callable."""
    prompts: list[PromptReference] | None = Field(
        default=None, examples=[[{"serverId": "notes", "promptName": "summary"}]]
    )
    """Prompts that callers may use. If omitted or null: all prompts of the servers that this preset
    refers to. An empty list: none."""
    resources: list[ResourceReference] | None = Field(
        default=None, examples=[[{"serverId": "notes", "resourceKey": "file:///notes.md"}]]
    )
    """Resources that callers may read. If omitted or null: all resources of the servers that this
    preset refers to. An empty list: none."""
    guards: GuardsEntry | None = Field(
        json_schema_extra=never_null, default=None, examples=[{"secrets": "redact"}]
    )
    """Guards on definitions, arguments and results of everything used under this preset, including
    document tools. If a server has the same guard, the stricter action applies."""
    instructions: PresetInstructions | None = Field(
        default=None, examples=[{"notes": "Search before you write.", "tickets": ""}]
    )
    """Replacement for the servers' instructions: one text for all servers, or one for each server
    id. An empty text: none. If omitted or null: the servers' own."""
    created_at_epoch_millis: Whole | None = Field(default=None, examples=[1766000000000])
    """Creation time in milliseconds since 1970. Lists are sorted by it."""


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
    """The permissions and list options of one agent.

    An agent never gets more than its callers have. All keys restrict it, except `sources`,
    `tool_name_style`, `schemas` and `name_max`."""

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
    """Items that the agent may not use: `name` or `server_id:name`, with the prefix `tool:`,
    `prompt:` or `resource:` for one kind only. A resource's name is its URI."""
    bind: AgentBind = Field(default={}, examples=[{"tickets:find": {"project": "DOCS"}}])
    """Constant arguments that the gateway fills in for this agent: `server_id:tool` → path → value.
    They are hidden from the agent's lists."""
    preset: _PresetId | None = Field(default=None, examples=["work"])
    """Id of a preset. The agent may use only items allowed by both this and the active preset."""
    documents: Annotated[list[Identifier], Field(max_length=MAX_DOCUMENTS)] | None = Field(
        default=None, examples=[["handbook"]]
    )
    """Ids of the documents that the agent is limited to. If omitted or null: all that its user may
    read. An empty list: none."""
    document_tools: _DocumentTools = Field(default=None, examples=["none", ["read_doc_pages"]])
    """Document tools of the gateway that the agent may use: `all`, `none`, or a list of names.
    MCP_PROXY_DOCUMENT_TOOLS may limit them further. If omitted or null: all."""
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


def is_of_others(key: str) -> bool:
    """Return whether a key, or what it misspells, belongs to servers' entries and presets."""
    return key in _OF_OTHERS or means_guards(key)


def meant_key(key: str) -> str | None:
    """Return the key of a profile that ``key`` misspells, of those that narrow it; else None."""
    return MISSPELT.get(key) or closest_match(key.casefold(), sorted(set(MISSPELT.values())))


class AgentsFile(BaseModel):
    """The agents of the gateway and their permissions."""

    model_config = SNAKE_CASE_MODEL | ConfigDict(title="MCP Tools Proxy: agents.json")

    @model_validator(mode="before")
    @classmethod
    def _refuse_keys_of_profiles(cls, file: object) -> object:
        _refuse_misplaced(file, KEYS_OF_PROFILES, "a profile")
        return file

    agents: list[AgentEntry] = Field(examples=[[{"name": "researcher", "client_ids": ["notes"]}]])
    """Agent profiles with unique names. If there are any, each request must name one in `agent`,
    unless MCP_PROXY_REQUIRE_AGENT is false."""


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
