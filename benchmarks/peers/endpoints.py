"""Where the echo tool is called: an MCP endpoint of either era, or an HTTP API."""

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from benchmarks.echo import ECHO, LEGACY, MODERN, PREFIX
from benchmarks.echo_calls import posted
from benchmarks.facade_messages import Way, opened
from benchmarks.generator import generator
from benchmarks.messages import EXECUTE, OK, call
from benchmarks.paired import Turn
from benchmarks.servers import Server

LOOPBACK = "127.0.0.1"
HTTP_API = "HTTP API"
SERVER_ID = "echo"
OUR_TOOL = f"{SERVER_ID}:{ECHO}"

_HUB_PATH = "/api/servers/tools"
_WARM_UP = 0.5
_PROBE_CONNECTIONS, _PROBE_CALLS, _PROBE_S = 32, 8_000, 4.0
"""So many that V8 has compiled its code: after 640 calls supergateway needs twice the CPU."""


class NotUsable(Exception):
    """An endpoint that gives wrong answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A path of a server; ``body`` builds a request from its text and number."""

    server: Server
    path: str
    body: Callable[[str, int], str]
    expected: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def turn(self, connections: int, calls: int) -> Turn:
        """Build as many calls, each with a text and a number of its own."""
        texts = [f"message {n}: is the door closed at night?" for n in range(1, calls + 1)]
        turn = posted(
            self.server,
            [self.body(text, number) for number, text in enumerate(texts, start=1)],
            self.expected,
            connections,
            calls,
            each=[f'"text":"{PREFIX}{text}"' for text in texts],
            path=self.path,
            headers=self.headers,
        )
        return replace(turn, warm_up_share=_WARM_UP)

    def probe(self) -> None:
        """Warm up, and check the answers to parallel calls. Raises NotUsable."""
        job = replace(self.turn(_PROBE_CONNECTIONS, _PROBE_CALLS).job, seconds=_PROBE_S)
        with generator("benchmarks.load") as load:
            load.begin(job)
            outcome = load.finish()
        if outcome.errors:
            raise NotUsable(f"wrong answers: {outcome.errors}, the first: {outcome.first_error}")


def open_mcp(server: Server, era: str, tool: str) -> Endpoint:
    """Open the MCP endpoint: a session for the older era. Raises OSError, AssertionError."""
    assert era in (LEGACY, MODERN)
    with socket.create_connection((LOOPBACK, server.port)):
        way = Way(server=server) if era == MODERN else opened(server, events=True)

    def body(text: str, number: int) -> str:
        params = {"name": tool, "arguments": {"text": text}}
        return way.message("tools/call", params, number)

    return Endpoint(
        server=server,
        path=way.path,
        body=body,
        expected='"result":{',
        headers=way.headers("tools/call", tool),
    )


def open_http_api(server: Server) -> Endpoint:
    """Return the endpoint of our HTTP API."""
    return Endpoint(
        server=server, path=EXECUTE, body=lambda text, _: call(OUR_TOOL, text=text), expected=OK
    )


def open_hub_api(server: Server) -> Endpoint:
    """Return the endpoint of mcp-hub's own HTTP API. Raises OSError, AssertionError."""

    def body(text: str, _: int) -> str:
        content = {"server_name": SERVER_ID, "tool": ECHO, "arguments": {"text": text}}
        return json.dumps(content, separators=(",", ":"))

    server.request(_HUB_PATH, body("ready?", 0), expected=PREFIX)
    return Endpoint(server=server, path=_HUB_PATH, body=body, expected='"result":{')
