"""Loads mcp.json, agents.json and preset_<id>.json, and writes the default preset.

Every function blocks: call it in a thread. An invalid file raises InvalidConfig with every problem
of that file; no message quotes a secret value.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from mcp_tools_proxy.config.build import (
    agents_warnings,
    build_agents,
    build_configuration,
    build_preset,
    configuration_warnings,
    duplicate_names,
    preset_warnings,
)
from mcp_tools_proxy.config.checked_configuration import (
    Written,
    check_configuration,
    drop_entries,
    entry_ids,
)
from mcp_tools_proxy.config.field_types import ID_PATTERN, ID_RULE
from mcp_tools_proxy.config.guards_entry import GuardsEntry, guard_actions
from mcp_tools_proxy.config.json_file import (
    Location,
    json_path,
    limit_problems,
    parse_json,
    problems_of,
    read_json,
    read_text,
    with_key,
)
from mcp_tools_proxy.config.network_rules import NetworkSupport
from mcp_tools_proxy.config.schema import AgentsFile, PresetFile
from mcp_tools_proxy.config.server_names import (
    at_names,
    derived_names,
    name_warnings,
    with_ids,
)
from mcp_tools_proxy.config.stdio_rules import StdioSupport
from mcp_tools_proxy.config.texts.caller_rules import IdentitySupport
from mcp_tools_proxy.config.unknown_keys import (
    AGENTS,
    PRESET,
    ExpectedKeys,
    group_oddities,
    unknown_keys,
)
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    Agents,
    Configuration,
    InvalidConfig,
    Preset,
    PresetSummary,
    Problem,
)
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from mcp_tools_proxy.domain.guards import GuardName
from mcp_tools_proxy.domain.proxies import NO_PROXIES
from mcp_tools_proxy.filesystem.atomic import write_atomically
from mcp_tools_proxy.policy.guards.secrets import scanner
from mcp_tools_proxy.policy.presets import OverrideProblem, find_override_problems
from mcp_tools_proxy.wire.text import file_name_text, quote

CONFIGURATION_FILE = "mcp.json"
AGENTS_FILE = "agents.json"
PRESET_FILES = "preset_*.json"

NO_FILE = Configuration()
"""The object that ``load_configuration`` returns without a mcp.json: compare with ``is``."""

NO_AGENTS = Agents()
"""The object that ``load_agents`` returns without an agents.json: compare with ``is``."""

ModelT = TypeVar("ModelT", bound=BaseModel)


class PresetMissing(LookupError):
    """There is no file for a preset of this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPreset:
    """A preset, and the oddities of its file: keys that nothing reads."""

    preset: Preset
    warnings: tuple[Problem, ...] = ()
    digest: bytes = field(default=b"", repr=False, compare=False)
    """The SHA-256 of the file's text, by which an unchanged file is not parsed again."""


_BUILT_IN = LoadedPreset(preset=EMPTY_PRESET)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetListing:
    """The presets that can be chosen, oldest first, and the problems of the other files."""

    presets: tuple[PresetSummary, ...] = ()
    problems: tuple[Problem, ...] = ()


def process_environment() -> Mapping[str, str]:
    """Return a copy of the process's environment, for ``${VAR}``."""
    return dict(os.environ)  # noqa: TID251 - variables of mcp.json are no settings of ours


def load_configuration(
    folder: Path,
    environment: Mapping[str, str],
    *,
    call_timeout_s: float,
    max_result_bytes: int,
    identity: IdentitySupport | None = None,
    stdio: StdioSupport | None = None,
    network: NetworkSupport | None = None,
) -> Configuration:
    """Load mcp.json, with its variables replaced; ``NO_FILE`` if there is none, which is normal.

    The two defaults apply where neither the file nor the server's entry sets a value; ``identity``
    is what entries can say of callers here, ``stdio`` which programs they may start, ``network``
    which addresses they may dial. The problems of a server's entry are in ``invalid``; all others
    raise InvalidConfig.
    """
    path = folder / CONFIGURATION_FILE
    written: Written | None = read_if_there(path, comments=True)
    if written is None:
        return NO_FILE
    names = derived_names(path.name, written)
    written = with_ids(written, names)
    try:
        checked = check_configuration(path.name, written, environment, identity, stdio, network)
    except InvalidConfig as error:
        raise InvalidConfig(at_names(error.problems, names)) from error
    good = drop_entries(written, checked.invalid)
    _prepare_guards(entry.guards for entry in checked.file.mcp_servers.values())
    warnings = configuration_warnings(
        path.name,
        checked.file,
        good,
        environment,
        several_tenants=identity is not None and identity.has_several_tenants(),
    )
    return build_configuration(
        checked.file,
        call_timeout_s=call_timeout_s,
        max_result_bytes=max_result_bytes,
        warnings=(*name_warnings(path.name, names), *at_names(warnings, names)),
        invalid={key: at_names(problems, names) for key, problems in checked.invalid.items()},
        names=names,
        order=entry_ids(written),
        written=good,
        environment=environment,
        jwt_issuer=None if identity is None else identity.oauth.jwt_issuer,
        proxies=NO_PROXIES if network is None else network.proxies,
        stdio_env={} if stdio is None else stdio.env,
    )


def load_agents(folder: Path) -> Agents:
    """Load agents.json; ``NO_AGENTS`` if there is none, which is normal.

    Raises InvalidConfig, also if two profiles have the same name.
    """
    path = folder / AGENTS_FILE
    written = read_if_there(path)
    if written is None:
        return NO_AGENTS
    file = _validate(AgentsFile, AGENTS, path.name, written)
    if problems := duplicate_names(path.name, "agents", (it.name for it in file.agents)):
        raise InvalidConfig(problems)
    return build_agents(file, warnings=agents_warnings(path.name, written))


def load_preset(folder: Path, preset_id: str, *, known: LoadedPreset | None = None) -> LoadedPreset:
    """Load the preset of this id; the empty one is built in and has no file.

    ``known`` is the previous result: it is returned if the file's text is unchanged, without
    parsing. Raises PresetMissing if there is no such file or the id is malformed; InvalidConfig.
    """
    if preset_id == EMPTY_PRESET.preset_id:
        return _BUILT_IN
    _check_id(preset_id)  # before any path is made of it
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
    _prepare_guards([file.guards])
    preset = build_preset(file)
    warnings = preset_warnings(path.name, written, preset)
    return LoadedPreset(preset=preset, warnings=warnings, digest=digest)


def _prepare_guards(entries: Iterable[GuardsEntry | None]) -> None:
    """Compile the rules for secrets, once, where an entry needs them: it takes 4 s of CPU."""
    if any(GuardName.SECRETS in guard_actions(entry) for entry in entries):
        scanner()


def list_presets(folder: Path) -> PresetListing:
    """List the presets by ``createdAtEpochMillis``, else by their file's time, then by file name.

    A file's time is its modification time, since Python has no creation time on Linux. Invalid
    files are among the problems. The built-in empty preset is not listed.
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
            problems.append(_dangling_link(path))
        else:
            summary = PresetSummary(preset_id=file.id, name=file.name)
            found.append((created_ms, path.name, summary))
    found.sort(key=lambda item: item[:2])
    return PresetListing(presets=tuple(summary for *_, summary in found), problems=tuple(problems))


def set_default_preset(
    folder: Path, preset_id: str, *, write: Callable[[Path, bytes], object] = write_atomically
) -> None:
    """Write the default preset into mcp.json: one key, all other text stays byte for byte.

    Without mcp.json one is created. Raises ConfigReadOnly if the file cannot be written,
    InvalidConfig if it is no JSON object, PresetMissing for a malformed id.
    """
    _check_id(preset_id)
    path = folder / CONFIGURATION_FILE
    try:
        text = read_text(path)
    except FileNotFoundError:
        text = '{\n  "mcpServers": {}\n}\n'
    parse_json(path.name, text, comments=True)
    try:
        write(path, with_key(text, "defaultPresetId", preset_id).encode())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not folder.is_dir():
            step = "the configuration folder (MCP_PROXY_CONFIG_DIR) does not exist; create it"
        else:
            step = (
                f"{path.name} cannot be written ({error.strerror}); make the configuration folder "
                "writable"
            )
        raise ConfigReadOnly(
            f'{step}, or send "persist": false to switch until the next start'
        ) from error


def read_if_there(path: Path, *, comments: bool = False) -> dict[str, object] | None:
    """Read an optional file; None if it does not exist. Raises InvalidConfig.

    A dangling symbolic link (a volume that is not mounted yet) is an invalid file, not an absent
    one: without agents.json every caller would be admitted without restrictions.
    """
    try:
        return read_json(path, comments=comments)
    except FileNotFoundError:
        if path.is_symlink():
            raise InvalidConfig((_dangling_link(path),)) from None
        return None


def _dangling_link(path: Path) -> Problem:
    return Problem(file=path.name, path="$", message="is a broken symbolic link")


def _check_id(preset_id: str) -> None:
    if not re.fullmatch(ID_PATTERN, preset_id):
        raise PresetMissing(f"{quote(preset_id)} is not a preset id: an id {ID_RULE}")


def _check_file_name(name: str) -> None:
    if not re.fullmatch(rf"preset_{ID_PATTERN}\.json", name):
        message = f"should be named preset_<id>.json; an id {ID_RULE}"
        raise InvalidConfig((Problem(file=file_name_text(name), path="$", message=message),))


def _validate_preset(file_name: str, written: object) -> PresetFile:
    file = _validate(PresetFile, PRESET, file_name, written)
    if file_name != f"preset_{file.id}.json":
        message = f"is {quote(file.id)}, but the file is named for another id; make them the same"
        raise InvalidConfig((Problem(file=file_name, path="$.id", message=message),))
    _check_overrides(file_name, file)
    return file


def _check_overrides(file_name: str, file: PresetFile) -> None:
    """Raise InvalidConfig for overrides that cannot be, and names that two items would have."""
    problems = [
        Problem(file=file_name, path=json_path(_place_of(it)), message=it.message)
        for it in find_override_problems(build_preset(file))
    ]
    if problems:
        raise InvalidConfig(limit_problems(file_name, problems))


def _place_of(problem: OverrideProblem) -> Location:
    field = () if problem.field is None else (problem.field,)
    return (f"{problem.kind.value}s", problem.place, "overrides", *field)


def _validate(
    model: type[ModelT], expected: ExpectedKeys, file_name: str, written: object
) -> ModelT:
    """Validate a file as a whole. Raises InvalidConfig, whose problems include unknown keys."""
    try:
        return model.model_validate(written)
    except ValidationError as error:
        odd = group_oddities(file_name, unknown_keys(expected, written))
        problems = (*problems_of(file_name, error), *odd)
        raise InvalidConfig(limit_problems(file_name, problems)) from error
