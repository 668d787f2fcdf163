"""Configuration folders with servers and presets."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.servers import NO_CALL_REFUSED, ROOT

Reference = tuple[str, str]
"""A server's id and the name of one of its tools."""


def over_http(port: int, path: str) -> Mapping[str, object]:
    """Return the entry of a streamable HTTP server."""
    return {"transport": "streamable-http", "url": f"http://127.0.0.1:{port}{path}"}


def over_stdio(module: str) -> Mapping[str, object]:
    """Return the entry of a stdio server in a Python module."""
    return {
        "transport": "stdio",
        "command": sys.executable,
        "args": ["-m", module],
        "env": {"PYTHONPATH": str(ROOT)},
    }


def write_configuration(
    folder: Path,
    servers: Mapping[str, Mapping[str, object]],
    presets: Mapping[str, Sequence[Reference]],
) -> Mapping[str, str]:
    """Write a new configuration folder, and return the service's settings.

    The first preset is the default. Budgets refuse no calls.
    """
    folder.mkdir()
    _write(folder / "mcp.json", {"mcpServers": servers, "defaultPresetId": next(iter(presets), "")})
    for preset_id, references in presets.items():
        write_preset(folder, preset_id, references)
    return {**NO_CALL_REFUSED, "MCP_PROXY_CONFIG_DIR": str(folder)}


def write_preset(folder: Path, preset_id: str, references: Sequence[Reference]) -> None:
    """Write or replace a preset's file in an existing folder."""
    _write(folder / f"preset_{preset_id}.json", _preset(preset_id, references))


def _preset(preset_id: str, references: Iterable[Reference]) -> Mapping[str, object]:
    tools = [{"serverId": server_id, "toolName": name} for server_id, name in references]
    return {"id": preset_id, "name": f"Preset {preset_id}", "tools": tools}


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=2), encoding="utf-8")
