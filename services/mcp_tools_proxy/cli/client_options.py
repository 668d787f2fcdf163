"""Options and errors of the commands that speak to a running gateway."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple, NoReturn

import typer

from mcp_tools_proxy.cli.completions import agent_names
from mcp_tools_proxy.cli.gateway_client import GatewayClient, GatewayUnreachable
from mcp_tools_proxy.cli.options import identifier, identifiers
from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.wire.text import printable

USER = "command-line"
"""The user of calls where no option names one."""

TenantOption = Annotated[
    str | None, typer.Option("--tenant", callback=identifier, help="The tenant of the call.")
]
UserOption = Annotated[
    str, typer.Option("--user", callback=identifier, help="The user of the call.")
]
RolesOption = Annotated[
    list[str] | None,
    typer.Option("--role", callback=identifiers, help="A role of the user. May be repeated."),
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent", callback=identifier, autocompletion=agent_names, help="The agent profile."
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The gateway's URL. By default MCP_PROXY_CLIENT_URL, or port MCP_PROXY_PORT of this "
        "machine.",
    ),
]
AnswerAsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")]


class CallerOptions(NamedTuple):
    """The caller whom the options name."""

    tenant: str | None
    user: str
    roles: Sequence[str]
    agent: str | None

    @property
    def query(self) -> Mapping[str, object]:
        """The caller as the query of a list."""
        named = {"tenant_id": self.tenant, "user_id": self.user, "agent": self.agent}
        return without_none(named) | ({"roles": list(self.roles)} if self.roles else {})


def fetch(client: GatewayClient, path: str, query: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a route answers; print an error, and exit, where it refuses or none answers."""
    with failing_if_unreachable():
        answer = client.get(path, query)
    return succeeded(answer)


@contextmanager
def failing_if_unreachable() -> Iterator[None]:
    """Print an error, and exit with 2, where no gateway answers."""
    try:
        yield
    except GatewayUnreachable as error:
        fail(str(error), 2)


def succeeded(answer: Mapping[str, object]) -> Mapping[str, object]:
    """Return an answer that is not an error; else print the error, and exit."""
    if "error" in answer:
        fail(error_text(answer))
    return answer


def objects_of(answer: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    """Return the objects of a list in an answer."""
    found = answer.get(key)
    return [it for it in found if isinstance(it, dict)] if isinstance(found, list) else []


def text_of(row: Mapping[str, object], key: str, default: str = "-") -> str:
    """Return a field for a table."""
    value = row.get(key)
    return default if value in (None, "") else printable(str(value))


def error_text(envelope: Mapping[str, object]) -> str:
    """Return the error of an envelope in one line."""
    error = envelope.get("error")
    if not isinstance(error, Mapping):
        return "the gateway's answer has neither result nor error"
    message = f"{error.get('code')}: {error.get('message')}"
    if error.get("code") == Unauthenticated.code:
        message += "; this command sends the token of MCP_PROXY_CLIENT_TOKEN"
    return printable(message)


def fail(message: str, exit_code: int = 1) -> NoReturn:
    """Print an error in one line, and exit."""
    echo(f"mcp-tools-proxy: {message}", err=True)
    raise typer.Exit(exit_code)
