import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from mcp_tools_proxy.config.agents import load_agents
from mcp_tools_proxy.config.limits import load_limits
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.config.preset_files import load_preset
from mcp_tools_proxy.domain.budget import LimitRules
from mcp_tools_proxy.domain.configuration import (
    Agents,
    Configuration,
    InvalidConfig,
    Preset,
    Problem,
)
from mcp_tools_proxy.domain.server import ServerConfig

T = TypeVar("T")

NO_VARIABLES: Mapping[str, str] = {}


def write_json(folder: Path, name: str, content: object) -> Path:
    """Write a file: bytes and text unchanged, other values as JSON."""
    path = folder / name
    match content:
        case bytes():
            path.write_bytes(content)
        case str():
            path.write_bytes(content.encode())
        case _:
            path.write_text(json.dumps(content), encoding="utf-8")
    return path


def load(
    folder: Path, content: object, environment: Mapping[str, str] = NO_VARIABLES
) -> Configuration:
    """Load ``content`` as mcp.json, with default limits of 60 s and 1,000 bytes."""
    write_json(folder, "mcp.json", content)
    return load_configuration(folder, environment, call_timeout_s=60, max_result_bytes=1000)


def load_server(
    folder: Path,
    entry: object,
    environment: Mapping[str, str] = NO_VARIABLES,
    *,
    root: Mapping[str, object] | None = None,
) -> ServerConfig:
    """Load a file whose only server is ``notes``; ``root`` has other keys of the file."""
    content = {"mcpServers": {"notes": entry}, **(root or {})}
    return load(folder, content, environment).servers["notes"]


def load_as_preset(folder: Path, content: object, preset_id: str = "work") -> Preset:
    write_json(folder, f"preset_{preset_id}.json", content)
    return load_preset(folder, preset_id).preset


def load_as_agents(folder: Path, content: object) -> Agents:
    write_json(folder, "agents.json", content)
    return load_agents(folder)


def load_as_limits(folder: Path, content: object) -> LimitRules:
    write_json(folder, "limits.json", content)
    return load_limits(folder)


def refused(
    folder: Path, content: object, environment: Mapping[str, str] = NO_VARIABLES
) -> dict[str, str]:
    """Load ``content`` as mcp.json, which is invalid as a whole or in an entry; return problems by
    JSON path."""
    try:
        loaded = load(folder, content, environment)
    except InvalidConfig as error:
        return by_path(error.problems)
    assert loaded.invalid, "the file was accepted"
    return by_path(tuple(problem for found in loaded.invalid.values() for problem in found))


def loads_whole(folder: Path, content: object, environment: Mapping[str, str]) -> bool:
    """Return whether ``content`` is a mcp.json whose entries are all valid."""
    loaded = outcome_of(lambda: load(folder, content, environment))
    return not isinstance(loaded, InvalidConfig) and not loaded.invalid


def by_path(problems: tuple[Problem, ...]) -> dict[str, str]:
    return {problem.path: problem.message for problem in problems}


def outcome_of(loading: Callable[[], T]) -> T | InvalidConfig:
    """Return the result of loading, or the refusal."""
    try:
        return loading()
    except InvalidConfig as error:
        return error
