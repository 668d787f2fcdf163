"""The ``config init`` command: creates a configuration folder."""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.storage.files import write_atomically

SCHEMAS = "schemas"
"""Folder of the JSON Schemas named in the files, for editors only."""

FILES: Mapping[str, Mapping[str, object]] = {
    "mcp.json": {
        "$schema": f"{SCHEMAS}/mcp.schema.json",
        "mcpServers": {
            "example": {
                "name": "Example: replace it with your server, then enable it",
                "type": "http",
                "url": "http://127.0.0.1:8084/mcp",
                "enabled": False,
            }
        },
        "defaultPresetId": "work",
    },
    "preset_work.json": {
        "$schema": f"{SCHEMAS}/preset.schema.json",
        "id": "work",
        "name": "Work",
        "description": "The tools that callers may use.",
        "tools": [{"serverId": "example", "toolName": "search", "enabled": False}],
    },
    "agents.json": {"$schema": f"{SCHEMAS}/agents.schema.json", "agents": []},
}
"""A folder without effect: it connects no servers and requires no agents."""

_Folder = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help="The folder; by default MCP_PROXY_CONFIG_DIR."),
]


def config_app(default_folder: Callable[[], Path]) -> typer.Typer:
    """Build the ``config`` sub-command; ``default_folder`` is called when a command runs."""
    app = typer.Typer(
        name="config", help="Create a configuration folder with examples.", rich_markup_mode=None
    )

    @app.command("init")
    def init(folder: _Folder = None) -> None:
        """Create a configuration folder with examples.

        It contains mcp.json with a disabled server, a preset, agents.json, and schemas for editors.

        If any of these files exists, nothing is written and the exit code is 1.
        """
        root = folder or default_folder()
        texts = _texts()
        if taken := [name for name in texts if (root / name).exists()]:
            echo(
                f"{root}: {', '.join(taken)} {'exists' if len(taken) == 1 else 'exist'} already, "
                "so nothing was written; name another folder",
                err=True,
            )
            raise typer.Exit(1)
        try:
            _write(root, texts)
        except OSError as error:
            echo(f"{root}: {error.strerror}", err=True)
            raise typer.Exit(1) from None
        command = f"mcp-tools-proxy check --config-dir {shlex.quote(str(root))}"
        echo(f"Next, add your servers to mcp.json and check it: {command}")

    return app


def _texts() -> Mapping[str, str]:
    """Return the texts of the files by path in the folder."""
    # imports a hundred models in 0.2 s
    from mcp_tools_proxy.config.schema import PUBLISHED, published  # noqa: PLC0415

    files = {
        name: json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for name, content in FILES.items()
    }
    return files | {f"{SCHEMAS}/{name}": published(model) for name, model in PUBLISHED.items()}


def _write(root: Path, texts: Mapping[str, str]) -> None:
    """Write and print the files; files created concurrently by others are kept."""
    (root / SCHEMAS).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomically(root / name, text.encode(), overwrite=False)
        echo(f"wrote {root / name}")
