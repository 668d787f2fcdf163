"""HTTP client for commands that use a running gateway, with their options and errors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlsplit

import typer

from mcp_tools_proxy.cli.options import agent_names, identifier, identifiers
from mcp_tools_proxy.cli.output import fail
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.settings.auth import ClientSettings
from mcp_tools_proxy.settings.types import secret_text
from mcp_tools_proxy.system.failure_reasons import connection_reason
from mcp_tools_proxy.wire.text import printable

if TYPE_CHECKING:
    import httpx


TOOLS = "/internal/mcp/tools"
PRESETS = "/internal/mcp/presets"
ACTIVE = f"{PRESETS}/active"

LoadSettings = Callable[[], ClientSettings]
"""Reads the settings of commands that use a gateway."""

CALL_S = 300.0
"""Maximum seconds for a response, longer than usual server timeouts."""

CONNECT_S = 5.0


class GatewayUnreachable(Exception):
    """The URL is not reachable or not a gateway; the text has the reason."""


class GatewayClient:
    """Client of the gateway at ``url``, with ``token`` if set."""

    def __init__(self, url: str, token: str | None, *, timeout_s: float = CALL_S) -> None:
        self._url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout_s

    @classmethod
    def of(
        cls, settings: ClientSettings, url: str | None, *, timeout_s: float = CALL_S
    ) -> "GatewayClient":
        """Build the client from the settings; ``url`` takes precedence."""
        return cls(
            url or settings.client_url or f"http://127.0.0.1:{settings.port}",
            secret_text(settings.client_token),
            timeout_s=timeout_s,
        )

    @property
    def has_token(self) -> bool:
        """Whether requests have a token."""
        return bool(self._headers)

    def post(self, path: str, body: Mapping[str, object]) -> Mapping[str, object]:
        """POST a body and return the JSON response. Raises GatewayUnreachable."""
        return self._send("POST", path, json=dict(body))

    def put(self, path: str, body: Mapping[str, object]) -> Mapping[str, object]:
        """PUT a body and return the JSON response. Raises GatewayUnreachable."""
        return self._send("PUT", path, json=dict(body))

    def get(self, path: str, query: Mapping[str, object]) -> Mapping[str, object]:
        """Return the JSON response of a route. Raises GatewayUnreachable."""
        return self._send("GET", path, params=dict(query))

    def _send(self, method: str, path: str, **content: object) -> Mapping[str, object]:
        # httpx is slow to import and unnecessary for completion of other commands
        import httpx  # noqa: PLC0415

        timeout = httpx.Timeout(self._timeout_s, connect=min(CONNECT_S, self._timeout_s))
        try:
            with httpx.Client(headers=self._headers, timeout=timeout, trust_env=False) as client:
                answer = client.request(method, self._url + path, **content)  # type: ignore[arg-type] # json or params
        except httpx.TimeoutException:
            raise GatewayUnreachable(f"{self._place} did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = connection_reason(error) or str(error) or type(error).__name__
            raise GatewayUnreachable(
                f"no gateway answers at {self._place}: {reason}; start one, or name another with "
                "--url, MCP_PROXY_CLIENT_URL or MCP_PROXY_PORT"
            ) from None
        return _json_of(answer, self._place)

    @property
    def _place(self) -> str:
        """The URL with scheme, host and port only."""
        try:
            parts = urlsplit(self._url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            return "the URL"
        return f"{parts.scheme}://{parts.hostname}{port}"


def _json_of(answer: "httpx.Response", place: str) -> Mapping[str, object]:
    try:
        content = answer.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise GatewayUnreachable(
            f"{place} is not a gateway: it answered with HTTP status {answer.status_code}, not "
            "with JSON"
        )
    return content


USER = "command-line"
"""The default user of calls."""

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
RunOption = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", callback=identifier, help="The run of the call."),
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
    """The caller in the options."""

    tenant: str | None
    user: str
    roles: Sequence[str]
    agent: str | None

    @property
    def query(self) -> Mapping[str, object]:
        """The caller as query parameters of a list."""
        named = {"tenant_id": self.tenant, "user_id": self.user, "agent": self.agent}
        return without_none(named) | ({"roles": list(self.roles)} if self.roles else {})


def fetch(client: GatewayClient, path: str, query: Mapping[str, object]) -> Mapping[str, object]:
    """Return the response of a route; on an error, print it and exit."""
    with failing_if_unreachable():
        answer = client.get(path, query)
    return succeeded(answer)


@contextmanager
def failing_if_unreachable() -> Iterator[None]:
    """Print an error and exit with 2 if the gateway is unreachable."""
    try:
        yield
    except GatewayUnreachable as error:
        fail(str(error))


def succeeded(answer: Mapping[str, object]) -> Mapping[str, object]:
    """Return a successful response; otherwise print its error and exit."""
    if "error" in answer:
        fail(error_text(answer), 1)
    return answer


def objects_of(answer: Mapping[str, object], key: str) -> Sequence[Mapping[str, object]]:
    """Return the objects of a list in a response."""
    found = answer.get(key)
    return [it for it in found if isinstance(it, dict)] if isinstance(found, list) else []


def text_of(row: Mapping[str, object], key: str, default: str = "-") -> str:
    """Return a field for a table."""
    value = row.get(key)
    return default if value in (None, "") else printable(str(value))


def error_text(envelope: Mapping[str, object]) -> str:
    """Return the error of an envelope as one line."""
    error = envelope.get("error")
    if not isinstance(error, Mapping):
        return "the gateway's answer has neither result nor error"
    message = f"{error.get('code')}: {error.get('message')}"
    if error.get("code") == Unauthenticated.code:
        message += "; this command sends the token of MCP_PROXY_CLIENT_TOKEN"
    return printable(message)
