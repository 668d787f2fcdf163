"""definitions.lock.json: the definitions that an operator accepted, with their texts.

Hidden characters are escaped for review. The last valid version of the file stays active.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Strict, ValidationError
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import Name, SnakeCaseModel
from mcp_tools_proxy.config.json_file import (
    MAX_DEPTH,
    json_path,
    limit_problems,
    parse_json,
    problems_of,
    read_text,
)
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem
from mcp_tools_proxy.domain.definitions import (
    LOCK_FILE,
    LOCK_VERSION,
    DefinitionKey,
    DefinitionKind,
    DefinitionsLock,
    DefinitionsMode,
    LockedDefinition,
)
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.definitions.canonical import canonical_json, digest_of
from mcp_tools_proxy.storage.files import write_atomically
from mcp_tools_proxy.wire.text import printable

_LAST_GOOD = "its last valid version stays active"


"""Unknown keys are errors, because a misspelt one would pin nothing."""


_DEEPEST = MAX_DEPTH - 8
"""Maximum nesting of a definition that is written with its text."""


_Kind = Annotated[
    DefinitionKind, Strict(False), Published({"type": "string", "enum": list(DefinitionKind)})
]


class LockEntry(SnakeCaseModel):
    """A definition that an operator accepted."""

    model_config = ConfigDict(extra="forbid")

    server_id: Name = Field(examples=["notes"])
    """The server's id in mcp.json."""
    kind: _Kind = Field(examples=["tool"])
    """Kind of definition: a tool, prompt, resource, template, or the server's instructions."""
    name: str = Field(examples=["find"])
    """The item's name at the server: the URI of a resource, the URI template of a template, empty
    for instructions."""
    sha256: str = Field(pattern="^[0-9a-f]{64}$", examples=["0" * 64])
    """SHA-256 of the definition in canonical form (RFC 8785)."""
    version: Literal[1, 2] | None = None
    """Format version of this entry if it differs from the file's. Version 1 does not cover `_meta`,
    `icons` and `execution`."""
    definition: dict[str, object] | None = None
    """The accepted definition, used to show differences: name, title, description, schemas or
    arguments, annotations, `icons`, `_meta` and `execution`. It must match `sha256`."""


class DefinitionsLockFile(SnakeCaseModel):
    """The accepted definitions, written by `mcp-tools-proxy check --lock`."""

    model_config = ConfigDict(extra="forbid", title="MCP Tools Proxy: definitions.lock.json")

    schema_url: str | None = Field(default=None, alias="$schema")
    """URL of this schema, for editors."""
    version: Literal[1, 2]
    """Format version: 2. Files of older releases have 1, which stays valid."""
    items: list[LockEntry]
    """The definitions, sorted by server, kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveLock:
    """The last valid lock, if any, and the problems of the current file."""

    lock: DefinitionsLock | None = None
    problems: tuple[Problem, ...] = ()
    digest: bytes = field(default=b"", repr=False, compare=False)
    """The SHA-256 of the text of ``lock``: an unchanged file is not parsed again."""

    @property
    def is_there(self) -> bool:
        """Whether a lock exists, valid or not."""
        return self.lock is not None or bool(self.problems)

    def mode(self, setting: DefinitionsMode | None) -> DefinitionsMode:
        """Return the effective mode: the setting, or by default WARN if a lock exists."""
        if setting is not None:
            return setting
        return DefinitionsMode.WARN if self.is_there else DefinitionsMode.OPEN


def load_active_lock(folder: Path, before: ActiveLock) -> ActiveLock:
    """Load the lock, and return the state that follows ``before``. Blocks.

    If the file is broken or removed, its last valid version stays active, so that an accident
    admits no unaccepted definitions.
    """
    path = folder / LOCK_FILE
    try:
        text = read_text(path)
        digest = sha256(text.encode()).digest()
        if before.lock is not None and digest == before.digest:
            return replace(before, problems=())
        return ActiveLock(lock=build_lock(parse_json(LOCK_FILE, text)), digest=digest)
    except FileNotFoundError:
        if path.is_symlink():
            return replace(before, problems=(_problem("is a broken symbolic link"),))
        if before.lock is None:
            return ActiveLock()
        return replace(before, problems=(_problem(f"was removed; {_LAST_GOOD}"),))
    except InvalidConfig as error:
        return replace(before, problems=error.problems)


def save_lock(
    folder: Path,
    lock: DefinitionsLock,
    *,
    write: Callable[[Path, bytes], object] = write_atomically,
) -> None:
    """Write the lock. Raises ConfigReadOnly. Blocks."""
    try:
        write(folder / LOCK_FILE, render_lock(lock).encode())
    except OSError as error:
        raise ConfigReadOnly(
            f"{LOCK_FILE} cannot be written ({error.strerror}); make the configuration folder "
            "writable, or run mcp-tools-proxy check --lock where it is writable and copy the "
            "file here"
        ) from error


def build_lock(written: object) -> DefinitionsLock:
    """Build the lock of a parsed file. Raises InvalidConfig."""
    try:
        file = DefinitionsLockFile.model_validate(written)
    except ValidationError as error:
        raise InvalidConfig(problems_of(LOCK_FILE, error)) from error
    if problems := list(_problems(file)):
        raise InvalidConfig(limit_problems(LOCK_FILE, problems))
    return DefinitionsLock(
        items={
            DefinitionKey(it.server_id, it.kind, it.name): LockedDefinition(
                sha256=it.sha256, definition=it.definition, version=it.version or file.version
            )
            for it in file.items
        }
    )


def _problems(file: DefinitionsLockFile) -> Iterator[Problem]:
    times = Counter((it.server_id, it.kind, it.name) for it in file.items)
    for index, it in enumerate(file.items):
        place = json_path(("items", index))
        if times[it.server_id, it.kind, it.name] > 1:
            message = "appears twice; keep the one that you accept"
            yield Problem(file=LOCK_FILE, path=place, message=message)
        if it.definition is not None and digest_of(canonical_json(it.definition)) != it.sha256:
            message = (
                "has a sha256 that does not match its text; run mcp-tools-proxy check --lock "
                "after an edit, or restore the entry from version control"
            )
            yield Problem(file=LOCK_FILE, path=place, message=message)


def render_lock(lock: DefinitionsLock) -> str:
    """Return the text of the file, identical for the same definitions, in a fixed order."""
    kinds = list(DefinitionKind)
    order = sorted(lock.items, key=lambda key: (key.server_id, kinds.index(key.kind), key.name))
    content = {
        "version": LOCK_VERSION,
        "items": [_entry(key, lock.items[key]) for key in order if _is_text(key.name)],
    }
    text = json.dumps(content, ensure_ascii=False, indent=2)
    return "".join(map(_escaped, re.split("(\n)", text))) + "\n"


def _entry(key: DefinitionKey, locked: LockedDefinition) -> Mapping[str, object]:
    entry: dict[str, object] = {
        "server_id": key.server_id,
        "kind": key.kind.value,
        "name": key.name,
        "sha256": locked.sha256,
    }
    if locked.version != LOCK_VERSION:
        entry["version"] = locked.version
    if locked.definition is not None and _is_storable(locked.definition):
        entry["definition"] = json.loads(canonical_json(locked.definition))
    return entry


def _is_storable(definition: JsonObject) -> bool:
    """Return whether a file can hold a definition: limited depth, and valid Unicode."""
    return _depth(definition) <= _DEEPEST and _is_text(canonical_json(definition))


def _depth(value: object) -> int:
    match value:
        case Mapping():
            return 1 + max(map(_depth, value.values()), default=0)
        case list() | tuple():
            return 1 + max(map(_depth, value), default=0)
    return 0


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(line: str) -> str:
    """Escape invisible characters of a line as JSON."""
    if line == "\n" or printable(line) == line:
        return line
    return "".join(_json_escape(char) if printable(char) != char else char for char in line)


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


def _problem(message: str) -> Problem:
    return Problem(file=LOCK_FILE, path="$", message=message)
