"""The commands ``call`` and ``explain``: run one tool, or see what would happen, and why.

They speak to a running gateway. The result goes to stdout; an error is one line on stderr, with
exit code 1, and 2 where no gateway answers.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NoReturn

import typer

from mcp_tools_proxy.cli.gateway_client import GatewayClient, GatewayUnreachable
from mcp_tools_proxy.cli.options import identifier, identifiers
from mcp_tools_proxy.settings.client import ClientSettings

EXECUTE = "/internal/mcp/execute"
TOOLS = "/internal/mcp/tools"

COMPLETION_S = 2.0
"""Longest wait, in seconds, for the names of tools while a shell completes a word."""

Load = Callable[[], ClientSettings]


def call_command(load: Load) -> Callable[..., None]:
    """Build the command ``call``; ``load`` reads the settings that it needs."""

    def complete(incomplete: str) -> list[str]:
        return tool_names(GatewayClient.of(load(), None, timeout_s=COMPLETION_S), incomplete)

    def call(
        tool: Annotated[str, typer.Argument(help="The tool's name.", autocompletion=complete)],
        arg: Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME=VALUE",
                help="An argument; JSON where the tool's schema wants no text. May be repeated.",
            ),
        ] = None,
        tenant: Annotated[
            str | None, typer.Option(callback=identifier, help="Whose data it concerns.")
        ] = None,
        user: Annotated[
            str, typer.Option(callback=identifier, help="For whom it is made.")
        ] = "command-line",
        role: Annotated[
            list[str] | None, typer.Option(callback=identifiers, help="A role of the user.")
        ] = None,
        agent: Annotated[
            str | None, typer.Option(callback=identifier, help="The agent profile.")
        ] = None,
        url: Annotated[str | None, typer.Option(help="The gateway [MCP_PROXY_CLIENT_URL].")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the whole envelope.")] = False,
    ) -> None:
        """Run one tool of a running gateway.

        The token is that of MCP_PROXY_CLIENT_TOKEN, which no list of processes shows.
        """
        client = GatewayClient.of(load(), url)
        try:
            request = build_request(client, tool, arg or (), tenant, user, role, agent)
            envelope = client.post(EXECUTE, request)
        except GatewayUnreachable as error:
            fail(str(error), 2)
        if as_json:
            typer.echo(json.dumps(envelope))
        elif envelope.get("status") == "ok":
            typer.echo(json.dumps(envelope.get("result"), indent=2, ensure_ascii=False))
        if envelope.get("status") != "ok":
            fail(error_text(envelope))

    return call


def build_request(
    client: GatewayClient,
    tool: str,
    given: Sequence[str],
    tenant: str | None,
    user: str,
    roles: Sequence[str] | None,
    agent: str | None,
) -> Mapping[str, object]:
    """Return the body of an execute request. Raises BadParameter, GatewayUnreachable."""
    caller: dict[str, object] = {"user_id": user}
    if tenant is not None:
        caller["tenant_id"] = tenant
    if roles:
        caller["roles"] = list(roles)
    request: dict[str, object] = {"tool_name": tool, "user": caller}
    if agent is not None:
        request["agent"] = agent
    properties = _properties(client, tool, tenant, agent) if given else {}
    request["arguments"] = dict(_argument(text, properties) for text in given)
    return request


def tool_names(client: GatewayClient, beginning: str) -> list[str]:
    """Return the names of tools that begin so; none where no gateway answers."""
    try:
        listed = client.get(TOOLS, {}).get("tools")
    except GatewayUnreachable:
        return []
    tools = listed if isinstance(listed, list) else []
    names = [it.get("name") for it in tools if isinstance(it, dict)]
    return [it for it in names if isinstance(it, str) and it.startswith(beginning)]


def error_text(envelope: Mapping[str, object]) -> str:
    """Return the error of an envelope in one line."""
    error = envelope.get("error")
    if not isinstance(error, Mapping):
        return "the gateway's answer has neither result nor error"
    return f"{error.get('code')}: {error.get('message')}"


def fail(message: str, exit_code: int = 1) -> NoReturn:
    """Print an error in one line, and exit."""
    typer.echo(f"mcp-tools-proxy: {message}", err=True)
    raise typer.Exit(exit_code)


def _properties(
    client: GatewayClient, tool: str, tenant: str | None, agent: str | None
) -> Mapping[str, object]:
    """Return the properties of a tool's input schema, none where the tool is not listed."""
    query = {"names": tool, "tenant_id": tenant, "agent": agent}
    listed = client.get(TOOLS, {key: value for key, value in query.items() if value is not None})
    match listed:
        case {"tools": [{"inputSchema": {"properties": dict(properties)}}]}:
            return properties
    return {}


def _argument(given: str, properties: Mapping[str, object]) -> tuple[str, object]:
    """Read NAME=VALUE; the value is text if the schema says so, or if it is no JSON."""
    name, equals, text = given.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{given!r} is not NAME=VALUE", param_hint="--arg")
    match properties.get(name):
        case {"type": "string"}:
            return name, text
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text
