"""The ``retrieval-service`` program."""

import asyncio
import sys
from functools import partial
from importlib.metadata import version
from typing import Annotated

import typer
import uvicorn
from typer.exceptions import TyperException

from mcp_tools_proxy.documents.open_documents import prepare_documents
from mcp_tools_proxy.server.connection_limit import (
    ConnectionLimit,
    LimitedProtocol,
    raise_descriptor_limit,
)
from mcp_tools_proxy.telemetry.logging import configure_logging
from mcp_tools_proxy.wire.identifiers import is_loopback
from retrieval_service.app import ENV_PREFIX, SettingsError, create_app, load_settings

USAGE_ERROR = 2

_Host = Annotated[str | None, typer.Option(help="Address to listen on [RETRIEVAL_HOST].")]
_Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to listen on [RETRIEVAL_PORT].")
]

app = typer.Typer(
    name="retrieval-service",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"retrieval-service {version('mcp-tools-proxy')}")  # noqa: TID251 - its own texts
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]


@app.command()
def serve(host: _Host = None, port: _Port = None, show_version: _Version = False) -> None:
    """Serve chunk windows of a documents folder; settings come from RETRIEVAL_* and .env."""
    try:
        settings = load_settings()
    except SettingsError as error:
        _print_error(str(error))
        raise typer.Exit(USAGE_ERROR) from None
    address = settings.host if host is None else host
    if settings.token is None and not is_loopback(address):
        _print_error(
            f"{ENV_PREFIX}TOKEN: is needed to listen on {address}, because everybody who reaches "
            "that address could read all documents; make one with: openssl rand -hex 32"
        )
        raise typer.Exit(USAGE_ERROR)
    configure_logging(settings.log_level, sys.stdout)
    url = settings.documents_url
    try:
        asyncio.run(
            prepare_documents(
                None if url is None else url.get_secret_value(),
                None,
                timeout_s=settings.documents_timeout,
            )
        )
    except ValueError as error:
        _print_error(str(error).replace("MCP_PROXY_", ENV_PREFIX, 1))
        raise typer.Exit(USAGE_ERROR) from None
    raise_descriptor_limit()
    uvicorn.run(
        create_app(settings),
        host=address,
        port=settings.port if port is None else port,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        ws="none",
        http=partial(  # type: ignore[arg-type]
            LimitedProtocol, limit=ConnectionLimit(), is_stopping=lambda: False
        ),
        server_header=False,
    )


def main() -> None:
    """Run the command line; bad usage and a bad setting are one line on stderr, exit code 2."""
    try:
        sys.exit(app(standalone_mode=False))
    except typer.Abort:
        sys.exit(130)
    except TyperException as error:
        _print_error(error.format_message())
        sys.exit(error.exit_code)


def _print_error(message: str) -> None:
    typer.echo(f"retrieval-service: {message}", err=True)  # noqa: TID251 - its own texts


if __name__ == "__main__":
    main()
