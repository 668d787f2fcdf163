"""The commands ``tools list``, ``servers``, ``presets``, ``limits`` and ``console``."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from mcp_tools_proxy.app.start_checks import needs_one_time_address
from mcp_tools_proxy.cli.gateway_client import (
    ACTIVE,
    PRESETS,
    TOOLS,
    USER,
    AgentOption,
    AnswerAsJson,
    CallerOptions,
    GatewayClient,
    LoadSettings,
    RolesOption,
    TenantOption,
    UrlOption,
    UserOption,
    failing_if_unreachable,
    fetch,
    objects_of,
    succeeded,
    text_of,
)
from mcp_tools_proxy.cli.output import counted, echo, fail, folded, print_json, print_table, whole
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.storage.cache_folder import default_folder

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port that the gateway listens on [MCP_PROXY_PORT]."),
]


def add_console_command(app: typer.Typer, load: Callable[[], Settings]) -> None:
    """Add the command."""

    @app.command("console")
    def show_address(port: Port = None) -> None:
        """Print the address of the console of the gateway on this machine.

        If operators cannot sign in with a token or at an issuer, it is a new one-time link, valid
        for ten minutes, with the rights presets, audit, documents and run. Its key is in the cache
        folder, which only the gateway's user can read.

        Exits with 1 if the console is off.
        """
        settings = load()
        echo(_address(settings, port or settings.port))


def _address(settings: Settings, port: int) -> str:
    """Return the console's address; print an error and exit if it is unavailable."""
    if not settings.console:
        fail(
            "the console is off in the settings of this command; use those of the gateway, or "
            "set MCP_PROXY_CONSOLE=true and restart the gateway",
            1,
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
        fail(f"the key of the console cannot be read: {error.strerror}", 1)
    if address is None:
        fail(
            f"no gateway with a console, started by this user, listens on port {port} of this "
            "machine; start one, or name its port with --port",
            1,
        )
    return address


def _shown_host(host: str) -> str:
    """Return a host for a URL; unspecified addresses become localhost."""
    name = "localhost" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"[{name}]" if ":" in name else name


SERVERS = "/internal/mcp/servers"
LIMITS = "/internal/mcp/limits"

_KINDS = {"tools": "tool", "prompts": "prompt", "resources": "resource"}

_Tool = Annotated[str | None, typer.Option("--tool", help="The tool of the call.")]
_Document = Annotated[str | None, typer.Option("--document", help="The document of the call.")]
_PresetId = Annotated[str, typer.Argument(metavar="PRESET", help="The preset's id, as listed.")]
_NoPersist = Annotated[
    bool, typer.Option("--no-persist", help="Switch until the next start; do not change mcp.json.")
]


def add_gateway_commands(app: typer.Typer, load: LoadSettings) -> None:
    """Add the commands; ``load`` reads their settings."""
    app.add_typer(_tools_app(load), name="tools")
    _add_servers(app, load)
    app.add_typer(_presets_app(load), name="presets")
    _add_limits(app, load)


def _tools_app(load: LoadSettings) -> typer.Typer:
    app = typer.Typer(help="Show the tools of a running gateway.", rich_markup_mode=None)

    @app.callback()
    def tools() -> None:
        """Show the tools of a running gateway."""

    @app.command("list")
    def list_tools(
        tenant: TenantOption = None,
        user: UserOption = USER,
        roles: RolesOption = None,
        agent: AgentOption = None,
        url: UrlOption = None,
        as_json: AnswerAsJson = False,
    ) -> None:
        """List the tools that a caller may run.

        If the output is not a terminal, name and description are separated by a tab.
        """
        caller = CallerOptions(tenant, user, roles or (), agent)
        answer = fetch(GatewayClient.of(load(), url), TOOLS, caller.query)
        if as_json:
            print_json(answer)
            return
        rows = [
            [text_of(tool, "name"), text_of(tool, "description").partition(". ")[0]]
            for tool in objects_of(answer, "tools")
        ]
        print_table([whole("tool"), folded("description")], rows)

    return app


def _add_servers(app: typer.Typer, load: LoadSettings) -> None:
    @app.command("servers")
    def servers(url: UrlOption = None, as_json: AnswerAsJson = False) -> None:
        """Show the servers of a running gateway, and their state.

        Shows the numbers of their items, and attempts to connect.

        Only operators see the last error; set MCP_PROXY_CLIENT_TOKEN to the token of one.
        """
        answer = fetch(GatewayClient.of(load(), url), SERVERS, {})
        if as_json:
            print_json(answer)
            return
        rows = [
            [
                text_of(server, "server_id"),
                text_of(server, "state"),
                text_of(server, "transport"),
                _offers(server.get("counts")),
                _attempts(server),
                text_of(server, "last_error"),
            ]
            for server in objects_of(answer, "servers")
        ]
        columns = [whole("server"), whole("state"), whole("transport")]
        more = [folded("offers"), folded("attempts"), folded("last error")]
        print_table([*columns, *more], rows)


def _offers(counts: object) -> str:
    if not isinstance(counts, Mapping):
        return "-"
    found = [counted(counts[key], noun) for key, noun in _KINDS.items() if counts.get(key)]
    return ", ".join(found) or "-"


def _attempts(server: Mapping[str, object]) -> str:
    """Return the number of attempts, and the time of the next one, of a disconnected server."""
    if not server.get("attempts"):
        return "-"
    found = str(server["attempts"])
    due = server.get("next_attempt_at")
    return found if due is None else f"{found}, next at {due}"


def _presets_app(load: LoadSettings) -> typer.Typer:
    app = typer.Typer(
        help="List the presets of a running gateway, and switch to one.", rich_markup_mode=None
    )

    @app.command("list")
    def list_presets(url: UrlOption = None, as_json: AnswerAsJson = False) -> None:
        """List the presets that can be chosen; * marks the active one."""
        answer = fetch(GatewayClient.of(load(), url), PRESETS, {})
        if as_json:
            print_json(answer)
            return
        rows = [
            [
                "*" if it.get("id") == answer.get("active") else "",
                text_of(it, "id"),
                text_of(it, "name"),
            ]
            for it in objects_of(answer, "presets")
        ]
        print_table([whole(""), whole("preset"), folded("name")], rows)

    @app.command("use")
    def use_preset(
        preset: _PresetId,
        no_persist: _NoPersist = False,
        url: UrlOption = None,
        as_json: AnswerAsJson = False,
    ) -> None:
        """Switch all callers to a preset, and make it the default in mcp.json.

        Needs the operator right presets.
        """
        body = {"preset_id": preset, "persist": not no_persist}
        with failing_if_unreachable():
            answer = succeeded(GatewayClient.of(load(), url).put(ACTIVE, body))
        if as_json:
            print_json(answer)
            return
        echo(f"preset {preset} is active")
        for it in objects_of(answer, "missing"):
            name = f"{text_of(it, 'server_id')}:{text_of(it, 'name')}"
            echo(f"missing: {text_of(it, 'kind')} {name}", err=True)

    return app


def _add_limits(app: typer.Typer, load: LoadSettings) -> None:
    @app.command("limits")
    def limits(
        tenant: TenantOption = None,
        user: UserOption = USER,
        agent: AgentOption = None,
        tool: _Tool = None,
        document: _Document = None,
        url: UrlOption = None,
        as_json: AnswerAsJson = False,
    ) -> None:
        """Show the budgets that a call would be charged to; nothing is charged.

        Needs a token of the tenant, or one with the operator right audit.
        """
        caller = CallerOptions(tenant, user, (), agent)
        query = {"tool": tool, "doc_id": document}
        named = {key: value for key, value in query.items() if value is not None}
        answer = fetch(GatewayClient.of(load(), url), LIMITS, {**caller.query, **named})
        if as_json:
            print_json(answer)
            return
        rows = [
            [
                text_of(it, "name"),
                f"{it.get('remaining')} of {it.get('limit')} {it.get('unit')}",
                f"{it.get('reset_s')} s" if it.get("reset_s") else "-",
            ]
            for it in objects_of(answer, "limits")
        ]
        print_table([whole("budget"), whole("left"), whole("resets in")], rows)
