"""The single schema of the configuration files: models for validation and JSON Schema.

``python -m mcp_tools_proxy.config.schema [FOLDER]`` writes the files in ``PUBLISHED``, for editors;
docstrings of models and fields are part of them. The loader accepts the same files, except for
rules that JSON Schema cannot express: unset variables, duplicate keys, duplicate names of agents or
rules, a preset's id that differs from its file's name, other misspelt keys of an agent or server.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from mcp_tools_proxy.config.agents import AgentsFile
from mcp_tools_proxy.config.definitions_lock import DefinitionsLockFile
from mcp_tools_proxy.config.field_types import (
    SERVER_KEYS,
    FileModel,
    Number,
    Seconds,
    ServerId,
    refuse_misplaced,
)
from mcp_tools_proxy.config.labels import LabelsFile
from mcp_tools_proxy.config.limits import LimitsFile
from mcp_tools_proxy.config.preset_files import PresetFile
from mcp_tools_proxy.config.server_entry import (
    ServerEntry,
)

KEYS_OF_ENTRIES = (
    *("assertion", "bind", "bindRequired", "discoveryCaller", "forward", "guards", "isolation"),
    "sandbox",
)


class ConfigurationFile(FileModel):
    """The gateway's downstream MCP servers, in the format shared by MCP clients."""

    model_config = ConfigDict(title="MCP Tools Proxy: mcp.json")

    @model_validator(mode="before")
    @classmethod
    def _refuse_keys_of_entries(cls, file: object) -> object:
        refuse_misplaced(file, KEYS_OF_ENTRIES, "a server's entry")
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
    """Timeout for one call to any server, in seconds. Default: MCP_PROXY_TOOL_TIMEOUT_S, 60."""
    capabilities_timeout_seconds: Seconds = 30
    """Timeout for each connection attempt and each list request, in seconds."""
    capabilities_refresh_interval_seconds: Number = 300
    """Seconds between refreshes of the servers' lists; at least 30. 0 or less turns refreshes
    off."""


PUBLISHED: Mapping[str, type[BaseModel]] = {
    "mcp.schema.json": ConfigurationFile,
    "agents.schema.json": AgentsFile,
    "preset.schema.json": PresetFile,
    "limits.schema.json": LimitsFile,
    "labels.schema.json": LabelsFile,
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
