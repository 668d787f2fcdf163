from collections.abc import Callable
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from mcp_tools_proxy.cli.documents.documents_app import documents_app
from mcp_tools_proxy.settings.documents import DocumentSettings

Run = Callable[..., Result]


def documents_commands(root: Path, **settings: object) -> Run:
    """Return a function that runs a command; the cache is beside the folder."""
    app = typer.Typer()
    made = DocumentSettings.model_validate(
        {"documents_path": root, "cache_dir": root.parent / "cache", **settings}
    )
    app.add_typer(documents_app(lambda: made))
    return lambda *arguments: CliRunner().invoke(app, ["documents", *map(str, arguments)])
