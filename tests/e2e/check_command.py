"""``mcp-tools-proxy check`` with a configuration written by the test."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.configuration import Config, Json, make_preset
from tests.support.program_launch import run

DEAD: Json = {"url": "http://127.0.0.1:9/mcp"}
ECHO = make_preset("echo", tools=[("s1", "echo")])


def check(
    *options: str, environment: Mapping[str, str] | None = None, fresh: bool = False
) -> tuple[int, str, str]:
    """Run the command in the test's folder; return its exit code, stdout and stderr."""
    return run(Path.cwd(), "check", *options, fresh=fresh, **(environment or {}))


def write(folder: Path, *presets: Json, **servers: Json) -> None:
    Config(servers=servers, presets=presets).write(folder)
