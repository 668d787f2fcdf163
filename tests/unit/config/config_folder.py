"""A configuration folder with agents that is reloaded after each edit."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.config_folder import ConfigFolder
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Problem
from tests.support.configuration import Config, Json, make_preset, write_json

BROKEN = "{ not json"
SERVERS = {server_id: {"command": "x"} for server_id in ("alpha", "beta")}
WORK = make_preset("work", tools=[("alpha", "search")])
PLAY = make_preset("play", tools=[("beta", "translate")])
TOOLS = ("alpha/search", "alpha/drop", "beta/translate")


class LoadedFolder:
    """Reloads a folder repeatedly; the active preset is ``active``."""

    def __init__(self, folder: Path, *agents: Json, active: str | None = None) -> None:
        self.folder = folder
        Config(servers=SERVERS, presets=[WORK, PLAY], agents=agents or None).write(folder)
        self.files = ConfigFolder(
            folder,
            load_configuration=partial(
                load_configuration, folder, {}, call_timeout_s=60, max_result_bytes=1000
            ),
            pinned=active,
        )
        self.now = ActiveConfig()
        self.load()

    def load(self) -> ActiveConfig:
        self.now = self.files.load_active(self.now)
        return self.now

    def write_agents(self, *agents: Json) -> None:
        write_json(self.folder / "agents.json", {"agents": list(agents)})
        self.load()

    def write_preset(self, preset: Json) -> None:
        write_json(self.folder / f"preset_{preset['id']}.json", preset)
        self.load()

    def break_file(self, file: str, *, deleted: bool = False) -> None:
        """Break or delete a file, and reload."""
        path = self.folder / file
        path.unlink() if deleted else path.write_text(BROKEN, encoding="utf-8")
        self.load()

    def usable_tools(self, agent: str) -> list[str]:
        """Return the names of TOOLS that the agent can use."""
        visibility = self.now.visibilities[agent]
        return [it for it in TOOLS if visibility.denial(Kind.TOOL, *it.split("/")) is None]


def places(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """Return file and JSON path of each problem."""
    return [(problem.file, problem.path) for problem in problems]
