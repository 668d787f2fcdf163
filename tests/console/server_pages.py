"""A console with servers, for the tests of their pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.configuration import Config, Json, make_preset
from tests.support.console_browser import ConsoleService, running_console

LIST = "/console/servers"
S1 = f"{LIST}/s1"
OBJECT: Json = {"type": "object"}


@asynccontextmanager
async def serving(
    *entries: Json, tools: list[str] | None = None, **settings: Any
) -> AsyncIterator[ConsoleService]:
    """Serve a console with servers s1, s2 …; the preset shows tools of s1."""
    servers = {f"s{number}": entry for number, entry in enumerate(entries, start=1)}
    shown = [("s1", name) for name in tools or ["echo", "whoami"]]
    preset = make_preset(tools=shown, prompts=[("s1", "greet")], resources=[("s1", "raw://text")])
    config = Config(servers=servers, presets=[preset], more={"defaultPresetId": "work"})
    async with running_console(config=config, **settings) as console:
        yield console
