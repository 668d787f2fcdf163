import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Pair = tuple[str, str]


def make_preset(
    preset_id: str = "work",
    *,
    tools: Sequence[Pair] = (),
    prompts: Sequence[Pair] | None = None,
    resources: Sequence[Pair] | None = None,
) -> Json:
    """Build a preset file's content; None leaves a kind unrestricted."""
    preset: Json = {"id": preset_id, "name": f"Preset {preset_id}"}
    preset["tools"] = [{"serverId": server, "toolName": name} for server, name in tools]
    if prompts is not None:
        preset["prompts"] = [{"serverId": server, "promptName": name} for server, name in prompts]
    if resources is not None:
        preset["resources"] = [
            {"serverId": server, "resourceKey": key} for server, key in resources
        ]
    return preset


def make_agent(
    name: str = "reader",
    *,
    client_ids: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    preset: str | None = None,
    name_style: str | None = None,
    documents: Sequence[str] | None = None,
) -> Json:
    """Build an entry of agents.json; fields that are None are omitted."""
    fields: Json = {"client_ids": client_ids, "exclude_components": exclude, "preset": preset}
    fields |= {"tool_name_style": name_style, "documents": documents}
    return {"name": name, **{key: value for key, value in fields.items() if value is not None}}


def make_rule(name: str = "rule", match: Json | None = None, **more: object) -> Json:
    return {"name": name, "match": match or {}, "window_s": 60, **more}


@dataclass(frozen=True, kw_only=True)
class Config:
    """A configuration folder; ``more`` are other keys of mcp.json.

    agents.json and limits.json are written only if ``agents`` or ``limits`` are given.
    """

    servers: Mapping[str, Json] = field(default_factory=dict)
    presets: Sequence[Json] = ()
    agents: Sequence[Json] | None = None
    limits: Sequence[Json] | None = None
    more: Json = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "mcp.json", {"mcpServers": dict(self.servers), **self.more})
        for preset in self.presets:
            write_json(folder / f"preset_{preset['id']}.json", preset)
        if self.agents is not None:
            write_json(folder / "agents.json", {"agents": list(self.agents)})
        if self.limits is not None:
            write_json(folder / "limits.json", {"rules": list(self.limits)})


def write_json(file: Path, content: object) -> None:
    """Write a file atomically, like a careful editor."""
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(file)
