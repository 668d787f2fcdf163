"""The ``documents`` commands; each has a module of its own."""

import typer

from mcp_tools_proxy.cli.documents.document_copy import add_copy
from mcp_tools_proxy.cli.documents.document_files import add_list, add_remove, add_show
from mcp_tools_proxy.cli.documents.document_import import add_import
from mcp_tools_proxy.cli.documents.document_migration import add_migrate
from mcp_tools_proxy.cli.documents.document_rights import add_rights
from mcp_tools_proxy.cli.documents.document_stores import LoadSettings


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
