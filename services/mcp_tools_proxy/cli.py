"""The ``mcp-tools-proxy`` command: serve, documents."""

import sys
from typing import Annotated, NoReturn

import typer

from mcp_tools_proxy.cli_documents import documents_app
from mcp_tools_proxy.settings import Settings, SettingsError, load_settings
from mcp_tools_proxy.telemetry.logging import configure_logging

USAGE_ERROR = 2

app = typer.Typer(
    name="mcp-tools-proxy",
    help="The tool-execution gateway that an LLM runtime calls. Without a command: serve.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def default(context: typer.Context) -> None:
    """Serve when no command is given."""
    if context.invoked_subcommand is None:
        serve_command()


@app.command("serve")
def serve_command(
    host: Annotated[str | None, typer.Option(help="Address to listen on [MCP_PROXY_HOST].")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on [MCP_PROXY_PORT].")
    ] = None,
) -> None:
    """Serve HTTP until SIGTERM or Ctrl+C; settings come from MCP_PROXY_* and .env."""
    settings = _settings()
    given = {"host": host, "port": port}
    settings = settings.model_copy(update={k: v for k, v in given.items() if v is not None})
    configure_logging(settings.log_level, sys.stdout)
    from mcp_tools_proxy.serving import serve  # noqa: PLC0415 - other commands need no server

    try:
        serve(settings)
    except (OSError, ValueError) as error:
        _fail(f"cannot serve on {settings.host}:{settings.port}: {error}")


app.add_typer(documents_app(lambda: _settings().documents_path), name="documents")


def _settings() -> Settings:
    try:
        return load_settings()
    except SettingsError as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"mcp-tools-proxy: {message}", err=True)
    raise typer.Exit(USAGE_ERROR)


def main() -> None:
    """Run the command line."""
    app()
