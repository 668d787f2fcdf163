"""The commands ``call`` and ``explain``: run a tool, or explain the expected result.

They use a running gateway. The result goes to stdout. Errors are one line on stderr, with exit code
1, or 2 if the gateway is unreachable.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, NoReturn

import typer
from typer.models import ArgumentInfo

from mcp_tools_proxy.cli.gateway_client import (
    ACTIVE,
    TOOLS,
    USER,
    AgentOption,
    AnswerAsJson,
    CallerOptions,
    GatewayClient,
    GatewayUnreachable,
    LoadSettings,
    RolesOption,
    RunOption,
    TenantOption,
    UrlOption,
    UserOption,
    error_text,
    failing_if_unreachable,
    objects_of,
)
from mcp_tools_proxy.cli.output import echo, fail, folded, print_json, print_table, whole

EXECUTE = "/internal/mcp/execute"
EXPLAIN = "/internal/mcp/explain"

COMPLETION_S = 2.0
"""Maximum seconds to request tool names for shell completion."""

_Arg = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help='An argument: page_start=2, tags=["a"]. Parsed as JSON if possible, unless the '
        "tool's schema expects text. May be repeated.",
    ),
]


def add_call_commands(app: typer.Typer, load: LoadSettings) -> None:
    """Add the commands; ``load`` reads their settings."""

    def complete(incomplete: str) -> list[str]:
        return tool_names(GatewayClient.of(load(), None, timeout_s=COMPLETION_S), incomplete)

    tool_argument = typer.Argument(metavar="TOOL", help="The tool's name.", autocompletion=complete)
    _add_call(app, load, tool_argument)
    _add_explain(app, load, tool_argument)


def _add_call(app: typer.Typer, load: LoadSettings, tool_argument: ArgumentInfo) -> None:
    @app.command("call")
    def call_command(
        tool: Annotated[str, tool_argument],
        arg: _Arg = None,
        tenant: TenantOption = None,
        user: UserOption = USER,
        roles: RolesOption = None,
        agent: AgentOption = None,
        run: RunOption = None,
        url: UrlOption = None,
        as_json: AnswerAsJson = False,
    ) -> None:
        """Run one tool of a running gateway.

        The token is read from MCP_PROXY_CLIENT_TOKEN, so that lists of processes do not show it.
        Exits with 1 if the call failed.
        """
        caller = CallerOptions(tenant, user, roles or (), agent)
        envelope = _send(EXECUTE, GatewayClient.of(load(), url), tool, arg or (), caller, run)
        if as_json:
            echo(json.dumps(envelope))
        elif envelope.get("status") == "ok":
            print_json(envelope.get("result"), indent=2)
        if envelope.get("status") != "ok":
            fail(error_text(envelope), 1)


def _add_explain(app: typer.Typer, load: LoadSettings, tool_argument: ArgumentInfo) -> None:
    @app.command("explain")
    def explain_command(
        tool: Annotated[str, tool_argument],
        arg: _Arg = None,
        tenant: TenantOption = None,
        user: UserOption = USER,
        roles: RolesOption = None,
        agent: AgentOption = None,
        run: RunOption = None,
        url: UrlOption = None,
        as_json: AnswerAsJson = False,
    ) -> None:
        """Show what would happen to a call, and why. Nothing is run or charged.

        The token in MCP_PROXY_CLIENT_TOKEN needs the operator right audit. A gateway on loopback
        without an admin token needs no token. Exits with 1 if the call would be refused.
        """
        caller = CallerOptions(tenant, user, roles or (), agent)
        answer = _send(EXPLAIN, GatewayClient.of(load(), url), tool, arg or (), caller, run)
        if "decision" not in answer:
            fail(error_text(answer), 1)
        if as_json:
            echo(json.dumps(answer))
        else:
            print_explanation(answer)
        if answer["decision"] not in ("pass", "not_checked"):
            raise typer.Exit(1)


def _send(
    path: str,
    client: GatewayClient,
    tool: str,
    given: Sequence[str],
    caller: CallerOptions,
    run: str | None,
) -> Mapping[str, object]:
    with failing_if_unreachable():
        body = build_request(client, tool, given, caller, run=run, stands_in=path == EXPLAIN)
        return client.post(path, body)


def print_explanation(answer: Mapping[str, object]) -> None:
    """Print the verdict, checks, destination and remaining budgets of a call."""
    echo(_verdict_of(answer) + "\n")
    rows = [
        [_text(it, "check"), _text(it, "verdict"), _text(it, "message"), _rule_of(it)]
        for it in objects_of(answer, "checks")
    ]
    print_table([whole("check"), whole("verdict"), folded("message"), folded("rule")], rows)
    echo()
    match answer.get("sends"):
        case {"to": to, "arguments": list(names), **more}:
            where = " ".join(str(more[key]) for key in ("server_id", "name") if key in more)
            echo(f"would be sent to {to} {where}".rstrip() + f": {', '.join(names) or '-'}")
    for budget in objects_of(answer, "budgets"):
        echo(
            f"budget {budget.get('name')}: {budget.get('remaining')} of {budget.get('limit')} "
            f"{budget.get('unit')} left, resets in {budget.get('reset_s')} s"
        )


def _verdict_of(answer: Mapping[str, object]) -> str:
    decision, check = answer.get("decision"), answer.get("check")
    if decision == "pass":
        return "the call would be made"
    messages = ", ".join(
        _text(it, "message") for it in objects_of(answer, "checks") if it.get("check") == check
    )
    if decision == "not_checked":
        return f"cannot tell whether the call would be made ({check}): {messages}"
    return f"the call would be refused ({decision}) by the check {check}: {messages}"


def _text(row: Mapping[str, object], key: str) -> str:
    reason = row.get("reason") if key == "message" else None
    text = str(row.get(key, ""))
    return f"{text} ({reason})" if reason else text


def _rule_of(row: Mapping[str, object]) -> str:
    match row.get("rule"):
        case {"file": file, "path": path}:
            return f"{file}: {path}"
    return ""


def build_request(
    client: GatewayClient,
    tool: str,
    given: Sequence[str],
    caller: CallerOptions,
    *,
    run: str | None = None,
    stands_in: bool = False,
) -> Mapping[str, object]:
    """Return the body of an execute request. Raises BadParameter, GatewayUnreachable.

    ``stands_in`` is True for operators' tokens, which can list tools for any caller.
    """
    user: dict[str, object] = {"user_id": caller.user}
    if caller.tenant is not None:
        user["tenant_id"] = caller.tenant
    if caller.roles:
        user["roles"] = list(caller.roles)
    request: dict[str, object] = {"tool_name": tool, "user": user}
    if caller.agent is not None:
        request["agent"] = caller.agent
    if run is not None:
        request["run"] = {"id": run}
    properties = _properties(client, tool, caller, stands_in=stands_in) if given else {}
    request["arguments"] = dict(_argument(text, properties) for text in given)
    return request


def tool_names(client: GatewayClient, beginning: str) -> list[str]:
    """Return the tool names with a prefix; empty if the gateway is unreachable."""
    try:
        listed = client.get(TOOLS, {}).get("tools")
    except GatewayUnreachable:
        return []
    tools = listed if isinstance(listed, list) else []
    names = [it.get("name") for it in tools if isinstance(it, dict)]
    return [it for it in names if isinstance(it, str) and it.startswith(beginning)]


def _properties(
    client: GatewayClient, tool: str, caller: CallerOptions, *, stands_in: bool
) -> Mapping[str, object]:
    """Return the properties of a tool's input schema; empty if the tool is not listed.

    Operators list tools by a preview, because a caller's list was FORBIDDEN and recorded.
    """
    query = {"names": tool, "tenant_id": caller.tenant, "agent": caller.agent}
    if stands_in and client.has_token:
        match client.get(ACTIVE, {}):
            case {"preset": {"id": str(preset_id)}}:
                query["preset_id"] = preset_id
    listed = client.get(TOOLS, {key: value for key, value in query.items() if value is not None})
    match listed:
        case {"tools": [{"inputSchema": {"properties": dict(properties)}}]}:
            return properties
        case {"error": {"code": "FORBIDDEN"}}:
            fail(error_text(listed), 1)
    return {}


def _argument(given: str, properties: Mapping[str, object]) -> tuple[str, object]:
    """Parse NAME=VALUE; the value is text if the schema requires it or it is not JSON."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("it must be UTF-8", param_hint="--arg") from None
    name, equals, text = given.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{given!r} is not NAME=VALUE", param_hint="--arg")
    match properties.get(name):
        case {"type": "string" | ["string", *_]}:
            return name, text
    try:
        return name, json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return name, text


def _refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which are not JSON. Raises ValueError."""
    raise ValueError(name)
