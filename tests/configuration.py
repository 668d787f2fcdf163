"""Configuration folders: what mcp.json and the preset files say."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Pair = tuple[str, str]
"""A server's id and the name of one of its items."""


def make_preset(
    preset_id: str = "work",
    *,
    tools: Sequence[Pair] = (),
    prompts: Sequence[Pair] | None = None,
    resources: Sequence[Pair] | None = None,
) -> Json:
    """Make a preset file's content; None leaves a kind unrestricted."""
    preset: Json = {"id": preset_id, "name": f"Preset {preset_id}"}
    preset["tools"] = [{"serverId": server, "toolName": name} for server, name in tools]
    if prompts is not None:
        preset["prompts"] = [{"serverId": server, "promptName": name} for server, name in prompts]
    if resources is not None:
        preset["resources"] = [
            {"serverId": server, "resourceKey": key} for server, key in resources
        ]
    return preset


@dataclass(frozen=True, kw_only=True)
class Config:
    """A configuration folder; ``more`` are other keys of mcp.json."""

    servers: Mapping[str, Json] = field(default_factory=dict)
    presets: Sequence[Json] = ()
    more: Json = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the files."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "mcp.json", {"mcpServers": dict(self.servers), **self.more})
        for preset in self.presets:
            write_json(folder / f"preset_{preset['id']}.json", preset)


def write_json(file: Path, content: object) -> None:
    """Write a file in one step, as a careful editor does."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(file)
