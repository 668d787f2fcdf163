"""A client of the conformance suite: the gateway before the suite's server, and its user."""

import asyncio
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import mcp_types as t
from mcp import Client

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.program_launch import run
from tests.support.service import EXECUTE, PROMPTS, RESOURCES, SERVERS, TOOLS, request_of

Json = dict[str, Any]
Call = tuple[str, Json]

ID = "judge"
USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
MOST_LOGINS = 4
"""The suite treats more than 3 for the same scope as a loop."""

NOTICED_S = 15
"""Time limit in seconds for a login to take effect or be lost."""

_OPEN = "import sys, urllib.request as u; u.urlopen(sys.argv[1])"
BROWSER = f"{shlex.join([sys.executable, '-c', _OPEN])} %s &"
"""Follows redirects, and returns before they end, like browsers."""

SETTINGS = {
    **UNLIMITED,
    "MCP_PROXY_TOOL_NAME_STYLE": "bare",
    "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1",
    "MCP_PROXY_CREDENTIALS_KEY": "only in tests " * 3,
    "BROWSER": BROWSER,
}
CIMD = "https://conformance-test.local/client-metadata.json"
HEADER_TOOLS = [
    "valid_tool",
    "invalid_empty_header",
    "invalid_object_header",
    "invalid_array_header",
    "invalid_null_header",
    "invalid_number_header",
    "invalid_duplicate_same_case",
    "invalid_duplicate_diff_case",
    "invalid_space_in_name",
    "invalid_colon_in_name",
    "invalid_non_ascii_name",
    "invalid_control_char_name",
]
REQUEST_STATE_TOOLS = [
    "test_mrtr_echo_state",
    "test_mrtr_unrelated",
    "test_mrtr_no_state",
    "test_mrtr_no_result_type",
]


@dataclass(frozen=True)
class Task:
    """The suite's task for a client."""

    url: str
    scenario: str
    version: str
    context: Json = field(default_factory=dict)


class User:
    """The user of the gateway, who signs in on request; ``steps`` has the result of each step."""

    def __init__(self, task: Task, program: Program, folder: Path, steps: list[str]) -> None:
        self.task = task
        self.steps = steps
        self.url = f"http://127.0.0.1:{program.port}/mcp"
        self.http: httpx.Client = program.http
        self.code = "OK"
        self._folder = folder
        self._logins = 0

    def connect(self) -> bool:
        """Return whether the server could be used in the end."""
        while (state := self._settled()) == "login_required" and self._sign_in():
            self._wait_for_login()
        self.steps.append(f"state: {state}")
        return state == "ready"

    def call(self, tool: str, arguments: Mapping[str, object] | None = None) -> str:
        """Call a tool, after a sign-in if required; return its code, or "OK"."""
        while True:
            envelope = self.http.post(EXECUTE, json=request_of(tool, arguments)).json()
            error = envelope.get("error") or {"code": "OK"}
            self.steps.append(f"{tool}: {error['code']} {error.get('message', '')}")
            details = error.get("details") or {}
            if error["code"] != "LOGIN_REQUIRED" or not self._sign_in(details.get("scopes", ())):
                self.code = str(error["code"])
                return self.code
            self.connect()

    def listed(self) -> dict[str, Json]:
        """Return the server's listed tools by name."""
        tools = self.http.get(TOOLS).json()["tools"]
        return {tool["name"].removeprefix(f"{ID}:"): tool for tool in tools}

    def _settled(self) -> str:
        """Wait until the server's state determines the next step."""
        found: Json = {}

        def is_settled() -> bool:
            found.update(self._state())
            is_final = found["state"] in ("ready", "login_required", "invalid", "failed")
            return is_final or "last_error" in found

        wait_until(is_settled)
        if found["state"] != "ready":
            self.steps.append(f"last error: {found.get('last_error')}")
        return str(found["state"])

    def _wait_for_login(self) -> None:
        """Wait until a login was noticed; a fast refusal may hide it."""
        ends = time.monotonic() + NOTICED_S
        while self._state()["state"] == "login_required" and time.monotonic() < ends:
            time.sleep(0.02)

    def _state(self) -> Json:
        found: Json = self.http.get(SERVERS).json()["servers"][0]
        return found

    def _sign_in(self, scopes: Sequence[str] = ()) -> bool:
        self._logins += 1
        if self._logins > MOST_LOGINS:
            return False
        options = [word for scope in scopes for word in ("--scope", scope)]
        words = ["login", ID, *options]
        code, printed, complained = run(self._folder, *words, fresh=False, **SETTINGS)
        self.steps.append(f"login {options}: {code} {printed} {complained}")
        return code == 0


def perform(task: Task, folder: Path, steps: list[str]) -> bool:
    """Execute the suite's task; return whether the last call, if any, succeeded."""
    preset = make_preset(tools=[(ID, name) for name in _tools(task)])
    Config(servers={ID: _entry(task)}, presets=[preset]).write(folder / "config")
    with started(folder, SETTINGS) as program:
        user = User(task, program, folder, steps)
        if not user.connect():
            return False
        ACTIONS.get(task.scenario, _use_test_tool)(user)
        return user.code == "OK"


def _entry(task: Task) -> Json:
    entry: Json = {"transport": "streamable-http", "url": task.url}
    if task.scenario.startswith("auth/"):
        entry["auth"] = {"type": "oauth", **AUTH.get(task.scenario, _no_keys)(task)}
    return entry


def _no_keys(_: Task) -> Json:
    return {}


def _known_client(task: Task) -> Json:
    context = task.context
    return {
        "clientId": context["client_id"],
        "clientSecret": context["client_secret"],
        "authorizationServer": context.get("issuer") or _issuer(task),
    }


def _issuer(task: Task) -> str:
    """Return the issuer that the server itself names, as an operator would configure it."""
    origin = task.url.removesuffix("/mcp")
    answer = httpx.get(f"{origin}/.well-known/oauth-protected-resource/mcp", timeout=BOUND_S)
    return str(answer.json()["authorization_servers"][0])


AUTH: Mapping[str, Callable[[Task], Json]] = {
    "auth/basic-cimd": lambda _: {"clientIdMetadataUrl": CIMD},
    "auth/pre-registration": _known_client,
    "auth/client-credentials-basic": lambda task: {
        "grant": "client_credentials",
        **_known_client(task),
    },
}
"""The keys of ``auth`` that an operator adds for a scenario."""


def _tools(task: Task) -> Sequence[str]:
    known = {
        "tools_call": ["add_numbers"],
        "elicitation-sep1034-client-defaults": ["test_client_elicitation_defaults"],
        "sse-retry": ["test_reconnection"],
        "http-standard-headers": ["test_headers", "my-hyphenated-tool"],
        "http-custom-headers": ["test_custom_headers", "test_custom_headers_null"],
        "http-invalid-tool-headers": HEADER_TOOLS,
        "json-schema-ref-no-deref": ["lookup_user"],
        "json-schema-2020-12-preservation": ["json_schema_2020_12_tool", "json_schema_echo"],
        "sep-2322-client-request-state": REQUEST_STATE_TOOLS,
    }
    return known.get(task.scenario, ["test-tool"])


def _use_test_tool(user: User) -> None:
    user.call("test-tool")


def _do_nothing(_: User) -> None:
    """Only connect the gateway."""


def _use_all_methods(user: User) -> None:
    user.call("test_headers")
    user.call("my-hyphenated-tool")
    for uri in ("file:///path/to/file%20name.txt", "https://example.com/resource?id=123"):
        body = {"uri": uri, "user": USER}
        user.steps.append(user.http.post(f"{RESOURCES}/read", json=body).text)
    body = {"name": "test_prompt", "arguments": {}, "user": USER}
    user.steps.append(user.http.post(f"{PROMPTS}/get", json=body).text)


def _call_as_scripted(user: User) -> None:
    for call in user.task.context["toolCalls"]:
        arguments = {name: it for name, it in call["arguments"].items() if it is not None}
        if user.call(call["name"], call["arguments"]) == "INVALID_ARGUMENTS":
            user.call(call["name"], arguments)  # its schema does not allow null


def _call_each(user: User) -> None:
    values = {"region": "a", "value": "a", "field1": "a", "field2": "b"}
    for name in reversed(HEADER_TOOLS):
        user.call(name, values)


def _echo_schema(user: User) -> None:
    schema = user.listed()["json_schema_2020_12_tool"]["inputSchema"]
    user.call("json_schema_echo", {"schema": schema})


def _answer_questions(user: User) -> None:
    """Call over MCP, so that the client can receive requests."""

    async def call() -> None:
        async with Client(user.url, cache=None, elicitation_callback=_accept) as client:
            for name in _tools(user.task):
                result = await client.call_tool(name, {})
                user.steps.append(f"{name}: {result.model_dump_json()}")

    asyncio.run(call())


async def _accept(context: object, params: t.ElicitRequestParams) -> t.ElicitResult:
    """Accept a form with its defaults and yes."""
    assert isinstance(params, t.ElicitRequestFormParams)
    fields = params.requested_schema["properties"]
    content = {name: it.get("default", True) for name, it in fields.items()}
    return t.ElicitResult(action="accept", content=content)


ACTIONS: Mapping[str, Callable[[User], None]] = {
    "initialize": _do_nothing,
    "request-metadata": _do_nothing,
    "tools_call": lambda user: _call(user, "add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": _answer_questions,
    "sse-retry": lambda user: _call(user, "test_reconnection", {}),
    "http-standard-headers": _use_all_methods,
    "http-custom-headers": _call_as_scripted,
    "http-invalid-tool-headers": _call_each,
    "json-schema-ref-no-deref": lambda user: _call(user, "lookup_user", {"id": "a"}),
    "json-schema-2020-12-preservation": _echo_schema,
    "sep-2322-client-request-state": _answer_questions,
}
"""The user's steps with a server that does not test OAuth."""


def _call(user: User, tool: str, arguments: Json) -> None:
    user.call(tool, arguments)
