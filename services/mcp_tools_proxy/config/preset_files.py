"""preset_<id>.json: its schema, and loading, listing and validation of presets.

The docstrings of the models are published. All reading functions block: call them in a thread.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic import WithJsonSchema as Published
from pydantic.config import JsonDict

from mcp_tools_proxy.config.field_types import (
    ID_PATTERN,
    ID_RULE,
    FileModel,
    Name,
    NotBlank,
    OverrideName,
    Whole,
    keys_of,
    never_null,
    read_into,
    refuse_null,
)
from mcp_tools_proxy.config.json_file import (
    Location,
    dangling_link,
    json_path,
    limit_problems,
    parse_json,
    read_json,
    read_text,
)
from mcp_tools_proxy.config.server_entry import (
    MISSPELT_GUARDS,
    Guards,
    means_guards,
    prepare_guards,
)
from mcp_tools_proxy.config.unknown_keys import (
    ExpectedKeys,
    Oddity,
    unknown_keys,
    validated,
    warnings_of,
)
from mcp_tools_proxy.domain.bindings import NO_OVERRIDES, Overrides
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    MAX_INSTRUCTIONS,
    MAX_SERVER_INSTRUCTIONS,
    InvalidConfig,
    OwnInstructions,
    Preset,
    PresetSummary,
    Problem,
    Reference,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.presets import OverrideProblem, find_override_problems
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.problem_texts import closest_match
from mcp_tools_proxy.wire.text import QUOTE_CHARS, file_name_text, quote

PRESET_FILES = "preset_*.json"


LAST_GOOD = "its last valid version"


MISSPELT_OVERRIDES = ("Overrides", "over_rides", "overridden", "override", "overrule", "overrules")
"""Misspellings of ``overrides``.

They are refused, because ignoring them would keep the server's text. The loader also refuses other
similar keys.
"""


_NOT_MISSPELT: JsonDict = {"propertyNames": {"not": {"enum": list(MISSPELT_OVERRIDES)}}}


def means_overrides(key: str) -> bool:
    """Return whether a key misspells ``overrides``."""
    if key in MISSPELT_OVERRIDES:
        return True
    return closest_match(key.casefold(), ["overrides"], least=0.7) is not None


def _refuse_misspelt_overrides(entry: object, known: Container[str], advice: str) -> None:
    """Raise ValueError for a key that misspells ``overrides`` and is not in ``known``."""
    for key in entry if isinstance(entry, Mapping) else ():
        if key not in known and means_overrides(key):
            raise ValueError(f"has the key {quote(key)}, {advice}")


class TextOverrides(FileModel):
    """Texts shown to callers instead of the server's own."""

    model_config = ConfigDict(extra="forbid")

    description: NotBlank | None = Field(default=None, examples=["Find a ticket by its number."])
    """Description shown to models."""
    title: NotBlank | None = Field(default=None, examples=["Find a ticket"])
    """Display name."""


class ItemOverrides(TextOverrides):
    """Texts and name shown to callers instead of the server's own."""

    name: OverrideName | None = Field(default=None, examples=["find_ticket"])
    """Name shown to callers. The server's own name still works, and exclusions use it."""


def _overrides(entry: TextOverrides) -> Overrides:
    return Overrides(**dict(entry))


_TextOverrides = Annotated[
    Overrides, read_into(Annotated[TextOverrides, AfterValidator(_overrides)])
]
_ItemOverrides = Annotated[
    Overrides, read_into(Annotated[ItemOverrides, AfterValidator(_overrides)])
]


class ReferenceEntry(FileModel):
    """Common fields of references to tools, prompts and resources."""

    model_config = ConfigDict(json_schema_extra=_NOT_MISSPELT)

    @model_validator(mode="before")
    @classmethod
    def _refuse_misspelt(cls, entry: object) -> object:
        _refuse_misspelt_overrides(entry, keys_of(cls), "which should be overrides")
        return entry

    server_id: Name = Field(examples=["notes"])
    """The server's id or name in mcp.json."""
    name: Name
    enabled: bool = True
    """`false` has the same effect as removing the reference."""


class ToolReference(ReferenceEntry):
    """A tool that callers may use."""

    name: Name = Field(alias="toolName", examples=["search"])
    """The tool's name at its server."""
    overrides: _ItemOverrides | None = None
    """Description, title and name shown to callers instead of the server's."""


class PromptReference(ReferenceEntry):
    """A prompt that callers may use."""

    name: Name = Field(alias="promptName", examples=["summary"])
    """The prompt's name at its server."""
    overrides: _ItemOverrides | None = None
    """Description, title and name shown to callers instead of the server's."""


class ResourceReference(ReferenceEntry):
    """A resource that callers may read."""

    name: Name = Field(alias="resourceKey", examples=["file:///notes.md"])
    """The resource's URI or URI template, or its name if it has neither."""
    overrides: _TextOverrides | None = None
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


PresetId = Annotated[str, AfterValidator(_check_preset_id), Published(_PRESET_ID)]


_OwnPresetId = Annotated[
    str,
    AfterValidator(_check_preset_id),
    AfterValidator(_not_built_in),
    Published({**_PRESET_ID, "not": {"const": EMPTY_PRESET.preset_id}}),
]


PresetInstructions = (
    Annotated[str, Field(max_length=MAX_INSTRUCTIONS)]
    | dict[Name, Annotated[str, Field(max_length=MAX_SERVER_INSTRUCTIONS)]]
)


class PresetFile(FileModel):
    """A preset: the downstream tools, prompts and resources that callers may use."""

    model_config = ConfigDict(
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
    guards: Guards | None = Field(
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


def _is_reported_in_preset(key: str) -> bool:
    return not means_overrides(key)


def _reference(model: type[BaseModel]) -> ExpectedKeys:
    return ExpectedKeys(model, is_reported=_is_reported_in_preset)


PRESET = ExpectedKeys(
    PresetFile,
    {},
    {
        "tools": _reference(ToolReference),
        "prompts": _reference(PromptReference),
        "resources": _reference(ResourceReference),
    },
    is_reported=lambda key: not (means_overrides(key) or means_guards(key)),
)


class PresetMissing(LookupError):
    """No file exists for a preset of this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPreset:
    """A preset, and warnings about unknown keys in its file."""

    preset: Preset
    warnings: tuple[Problem, ...] = ()
    digest: bytes = field(default=b"", repr=False, compare=False)
    """The SHA-256 of the file's text: an unchanged file is not parsed again."""


_BUILT_IN = LoadedPreset(preset=EMPTY_PRESET)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetListing:
    """The presets that can be chosen, oldest first, and the problems of the other files."""

    presets: tuple[PresetSummary, ...] = ()
    problems: tuple[Problem, ...] = ()


def load_preset(folder: Path, preset_id: str, *, known: LoadedPreset | None = None) -> LoadedPreset:
    """Load the preset of this id; the empty one is built in, without a file.

    ``known``, the previous result, is returned if the file is unchanged. Raises PresetMissing for a
    missing file or a malformed id, and InvalidConfig.
    """
    if preset_id == EMPTY_PRESET.preset_id:
        return _BUILT_IN
    check_preset_id(preset_id)  # before its use in a path
    path = folder / f"preset_{preset_id}.json"
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        raise PresetMissing(f"{path.name} does not exist") from error
    digest = sha256(text.encode()).digest()
    if known is not None and known.digest == digest:
        return known
    written = parse_json(path.name, text)
    file = _validate_preset(path.name, written)
    prepare_guards([file.guards])
    preset = build_preset(file)
    warnings = preset_warnings(path.name, written, preset)
    return LoadedPreset(preset=preset, warnings=warnings, digest=digest)


def list_presets(folder: Path) -> PresetListing:
    """List the presets by ``createdAtEpochMillis`` or modification time, then by file name.

    Python lacks the creation time on Linux. Invalid files are reported as problems, and the
    built-in empty preset is not listed.
    """
    found: list[tuple[float, str, PresetSummary]] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob(PRESET_FILES)):
        try:
            _check_file_name(path.name)
            file = _validate_preset(path.name, read_json(path))
            created_ms = file.created_at_epoch_millis
            if created_ms is None:
                created_ms = path.stat().st_mtime_ns // 1_000_000
        except InvalidConfig as error:
            problems.extend(error.problems)
        except FileNotFoundError:
            problems.append(dangling_link(path))
        else:
            summary = PresetSummary(preset_id=file.id, name=file.name)
            found.append((created_ms, path.name, summary))
    found.sort(key=lambda item: item[:2])
    return PresetListing(presets=tuple(summary for *_, summary in found), problems=tuple(problems))


def check_preset_id(preset_id: str) -> None:
    """Raise PresetMissing for a text that cannot be a preset's id."""
    if not re.fullmatch(ID_PATTERN, preset_id):
        raise PresetMissing(f"{quote(preset_id)} is not a preset id: an id {ID_RULE}")


def _check_file_name(name: str) -> None:
    if not re.fullmatch(rf"preset_{ID_PATTERN}\.json", name):
        message = f"should be named preset_<id>.json; an id {ID_RULE}"
        raise InvalidConfig((Problem(file=file_name_text(name), path="$", message=message),))


def _validate_preset(file_name: str, written: object) -> PresetFile:
    file = validated(PresetFile, PRESET, file_name, written)
    if file_name != f"preset_{file.id}.json":
        message = f"is {quote(file.id)}, but the file is named for another id; make them the same"
        raise InvalidConfig((Problem(file=file_name, path="$.id", message=message),))
    _check_overrides(file_name, file)
    return file


def _check_overrides(file_name: str, file: PresetFile) -> None:
    """Raise InvalidConfig for invalid overrides, and for a name shared by two items."""
    problems = [
        Problem(file=file_name, path=json_path(_place_of(it)), message=it.message)
        for it in find_override_problems(build_preset(file))
    ]
    if problems:
        raise InvalidConfig(limit_problems(file_name, problems))


def _place_of(problem: OverrideProblem) -> Location:
    field = () if problem.field is None else (problem.field,)
    return (f"{problem.kind.value}s", problem.place, "overrides", *field)


def build_preset(file: PresetFile) -> Preset:
    """Build a preset (P-01, P-02)."""
    return Preset(
        preset_id=file.id,
        name=file.name,
        tools=_references(file.tools),
        prompts=None if file.prompts is None else _references(file.prompts),
        resources=None if file.resources is None else _references(file.resources),
        guards=file.guards or {},
        instructions=_own_instructions(file.instructions),
    )


def _own_instructions(written: str | Mapping[str, str] | None) -> OwnInstructions | None:
    if isinstance(written, str) or written is None:
        return written
    return {server_id_of(name): text for name, text in written.items()}


def _references(
    entries: Iterable[ToolReference | PromptReference | ResourceReference],
) -> tuple[Reference, ...]:
    return tuple(
        Reference(
            server_id=server_id_of(entry.server_id),
            name=entry.name,
            enabled=entry.enabled,
            overrides=entry.overrides or NO_OVERRIDES,
        )
        for entry in entries
    )


def preset_warnings(file_name: str, written: object, preset: Preset) -> tuple[Problem, ...]:
    """Return warnings about unknown keys and unused instructions in a preset's file."""
    return warnings_of(file_name, (*unknown_keys(PRESET, written), *_unused_instructions(preset)))


def _unused_instructions(preset: Preset) -> Iterator[Oddity]:
    """Yield the instructions of servers without items in the preset."""
    texts = preset.instructions
    servers = {it.server_id for _, references in preset.references for it in references}
    for server_id in texts if isinstance(texts, Mapping) else ():
        if server_id not in servers:
            message = "is ignored: the preset has no items of this server"
            yield ("instructions", server_id), message


def preset_file(preset_id: str) -> str:
    """Return the file name of a preset, truncated, because the id can be any text."""
    return f"preset_{preset_id[:QUOTE_CHARS]}.json"


def inactive_preset_problems(
    preset_id: str, error: PresetMissing | InvalidConfig, instead: str
) -> tuple[Problem, ...]:
    """Return the problems of an unusable preset file; ``instead`` names the active preset."""
    reason = "has problems" if isinstance(error, InvalidConfig) else str(error)
    first = Problem(file=preset_file(preset_id), path="$", message=f"{reason}; {instead} is active")
    return (first, *(error.problems if isinstance(error, InvalidConfig) else ()))
