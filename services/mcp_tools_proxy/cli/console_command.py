"""The ``console`` command: where to sign in to the console of a gateway on this machine."""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from mcp_tools_proxy.app.console.sign_in_check import needs_one_time_address
from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.documents.cache_folder import default_folder
from mcp_tools_proxy.settings.settings import Settings

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port that the gateway listens on [MCP_PROXY_PORT]."),
]


def add_console_command(app: typer.Typer, load: Callable[[], Settings]) -> None:
    """Add the command."""

    @app.command("console")
    def show_address(port: Port = None) -> None:
        """Print the address of the console of the gateway on this machine.

        If operators cannot sign in with a token, it is a new one-time link, valid for ten minutes.
        """
        settings = load()
        try:
            echo(_address(settings, port or settings.port))
        except _NoAddress as error:
            echo(f"mcp-tools-proxy: {error}", err=True)
            raise typer.Exit(1) from None


class _NoAddress(Exception):
    """There is no address to print; the message is one line, for a person."""


def _address(settings: Settings, port: int) -> str:
    """Return the address. Raises _NoAddress."""
    if not settings.console:
        raise _NoAddress(
            "the console is off in the settings of this command; use those of the gateway, or "
            "set MCP_PROXY_CONSOLE=true and restart the gateway"
        )
    host = settings.host
    if not needs_one_time_address(settings):
        url = settings.public_url or f"http://{_shown_host(host)}:{port}"
        return f"{url.rstrip('/')}/console"
    # its libraries are slow to import
    from mcp_tools_proxy.console.one_time_address import new_address  # noqa: PLC0415

    folder = settings.cache_dir or default_folder()
    try:
        address = new_address(folder, host, port, time.time)  # noqa: TID251 - the command's clock
    except OSError as error:
        raise _NoAddress(f"the key of the console cannot be read: {error.strerror}") from None
    if address is None:
        raise _NoAddress(
            f"no gateway with a console, started by this user, listens on port {port} of this "
            "machine; start one, or name its port with --port"
        )
    return address


def _shown_host(host: str) -> str:
    """Return a host for an address; one that stands for every address is this machine's."""
    name = "localhost" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"[{name}]" if ":" in name else name
