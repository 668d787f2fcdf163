"""The ``documents`` command with its sub-commands; ``copy`` and ``migrate`` are here.

``copy`` copies from one store to another, and verifies each copy.
"""

import asyncio
import dataclasses

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mcp_tools_proxy.cli.documents.document_files import (
    add_list,
    add_remove,
    add_rights,
    add_show,
    all_heads,
)
from mcp_tools_proxy.cli.documents.document_import import add_import
from mcp_tools_proxy.cli.documents.document_files import add_rights
from mcp_tools_proxy.cli.documents.document_stores import LoadSettings, run_command
from mcp_tools_proxy.cli.output import AsJson, echo, fail, print_json


def add_migrate(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("migrate")
    def migrate(as_json: AsJson = False) -> None:
        """Create or upgrade the schema in PostgreSQL, and the role of the gateway.

        Connects with MCP_PROXY_DOCUMENTS_OWNER_URL. The role in MCP_PROXY_DOCUMENTS_URL is created
        with the password given there; if it exists, only its permissions are set.
        """
        settings = load_settings()
        if settings.documents_owner_url is None:
            fail(
                "MCP_PROXY_DOCUMENTS_OWNER_URL: is required to migrate; set it to the URL of the "
                "database with the role of its owner"
            )
        owner_url = settings.documents_owner_url.get_secret_value()
        url = settings.documents_url
        # asyncpg is slow to import
        from mcp_tools_proxy.documents.postgres import schema as migration  # noqa: PLC0415

        gateway_url = None if url is None else url.get_secret_value()
        done = run_command(migration.migrate(owner_url, gateway_url))
        if as_json:
            print_json(dataclasses.asdict(done))
            return
        if done.before == done.after:
            echo(f"the schema is already at number {done.after}")
        else:
            echo(f"migrated the schema from number {done.before} to {done.after}")
        if done.role is None:
            echo(
                "MCP_PROXY_DOCUMENTS_URL is not set, so no role was given permissions",
                err=True,
            )
        else:
            ready = "has the required permissions"
            made = f"was created and {ready}" if done.created_role else ready
            echo(f"the role {done.role} {made}")


def documents_app(load_settings: LoadSettings) -> typer.Typer:
    """Build the ``documents`` sub-command; ``load_settings`` is called when a command runs."""
    app = typer.Typer(
        name="documents",
        help="Import, list, show, copy and remove documents, and control who may read them.",
        rich_markup_mode=None,
    )
    add_import(app, load_settings)
    add_list(app, load_settings)
    add_show(app, load_settings)
    add_remove(app, load_settings)
    add_rights(app, load_settings)
    add_copy(app, load_settings)
    add_migrate(app, load_settings)
    return app
