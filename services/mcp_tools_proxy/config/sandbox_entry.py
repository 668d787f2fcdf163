"""The model of ``sandbox`` in a server's entry: what its processes may use of the machine."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import (
    FILE_MODEL,
    BoundText,
    Count,
    environment_for,
    keys_of,
)
from mcp_tools_proxy.config.json_file import Location
from mcp_tools_proxy.config.texts.caller_texts import BOUND_PATTERN
from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.server import Sandbox
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.strict_json import whole_number

MIN_MEMORY_BYTES = 1024 * 1024
"""Below this no program starts; most likely megabytes were meant."""

_ABSOLUTE = r"^(?:/|\$\{(?!caller\.))"
"""A path begins with ``/``, or with a variable whose value does."""

_PATHS: dict[str, object] = {
    "type": "array",
    "items": {"type": "string", "allOf": [{"pattern": BOUND_PATTERN}, {"pattern": _ABSOLUTE}]},
}

# each may be left out, and not be null, which could mean nothing as well as everything
_Switch = Annotated[bool | None, Published({"type": "boolean"})]
_Paths = Annotated[list[BoundText] | None, Published(_PATHS)]
_Bytes = Annotated[
    Annotated[int, Field(ge=MIN_MEMORY_BYTES), BeforeValidator(whole_number)] | None,
    Published({"type": "integer", "minimum": MIN_MEMORY_BYTES}),
]
_Cores = Annotated[Count | None, Published({"type": "integer", "minimum": 1})]


class SandboxEntry(BaseModel):
    """Limits for the processes of a stdio server.

    Omitted keys restrict nothing. Linux only."""

    model_config = ConfigDict(**{**FILE_MODEL, "extra": "forbid"})

    network: _Switch = Field(default=None, examples=[False])
    """`false` blocks the network and this machine's sockets."""
    read: _Paths = Field(default=None, examples=[["/srv/notes", "/opt/notes-server"]])
    """Absolute paths of the files and folders that can be read. The program, the system's programs
    and libraries, and the paths in `write` are always readable. `${VAR}` is replaced; `${caller.…}`
    fills one path segment."""
    write: _Paths = Field(default=None, examples=[["/srv/notes/${caller.tenant_id}"]])
    """Absolute paths of the files and folders that can be written, as in `read`."""
    memory: _Bytes = Field(default=None, examples=[536870912])
    """Maximum memory of each process, in bytes."""
    cpu: _Cores = Field(default=None, examples=[1])
    """Processor cores shared by all processes of one session."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_null(cls, entry: object) -> object:
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            if value is None:
                raise ValueError(f"has null in {key}: leave the key out, or give it a value")
        return entry

    @field_validator("read", "write")
    @classmethod
    def _absolute(
        cls, paths: list[str | CallerTemplate] | None, info: ValidationInfo
    ) -> list[str | CallerTemplate] | None:
        for path in paths or ():
            start = path if isinstance(path, str) else path.parts[0]
            is_unknown = environment_for(info) is None and str(start).startswith("${")
            if not is_unknown and not (isinstance(start, str) and start.startswith("/")):
                raise ValueError("has a path that is not absolute; begin it with /")
        return paths


def sandbox_of(entry: SandboxEntry | None) -> Sandbox | None:
    """Return the restrictions of an entry; None if there are none."""
    if entry is None:
        return None
    sandbox = Sandbox(
        network=entry.network is not False,
        read=None if entry.read is None else tuple(entry.read),
        write=None if entry.write is None else tuple(entry.write),
        memory=entry.memory,
        cpu=entry.cpu,
    )
    return None if sandbox == Sandbox() else sandbox


def unknown_sandbox_key(place: Location) -> str | None:
    """Return the message for an unknown key of ``sandbox``; None for another place."""
    if place[-2:-1] != ("sandbox",):
        return None
    meant = closest_match(str(place[-1]), keys_of(SandboxEntry))
    return f"is not a known key{did_you_mean(meant, '; remove it')}"
