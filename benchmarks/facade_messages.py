"""Requests to MCP servers over streamable HTTP: headers, messages and sessions of both eras."""

import contextlib
import http.client
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.corpus import TENANT
from benchmarks.echo import LEGACY, MODERN
from benchmarks.load import Job
from benchmarks.paired import Turn
from benchmarks.servers import REQUEST_LIMIT_S, START_LIMIT_S, NotStarted, Server

JSON_PATH, STREAM_PATH = "/mcp", "/streams"
"""Paths of the SDK's server with JSON and with event streams; the facade has one path."""

DOC_ID = "big-0"
SECTION_TOOL = "read_doc_section"
SECTIONS = tuple(f"s{number}" for number in range(1, 21))
"""Section ids of every document."""

_JSON, _EVENTS = "application/json", "application/json, text/event-stream"
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_INITIALIZE = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_CALLS_AT_ONCE = 16
"""Repetitions of a list of calls with other ids, so that no id is used twice concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to access a server: path, era, and the accepted types of the older era."""

    server: Server
    path: str = JSON_PATH
    modern: bool = True
    events: bool = False
    session: Mapping[str, str] = field(default_factory=dict)

    def headers(self, method: str, name: str = "") -> dict[str, str]:
        sent = {
            "accept": _EVENTS if self.modern or self.events else _JSON,
            "mcp-protocol-version": MODERN if self.modern else LEGACY,
            "x-tenant-id": TENANT,
            "x-user-id": "bench-user",
            **self.session,
        }
        if self.modern:
            sent |= {"mcp-method": method} | ({"mcp-name": name} if name else {})
        return sent

    def message(self, method: str, params: Mapping[str, object], number: int = 1) -> str:
        """Build the body of a request."""
        meta = {"_meta": _ENVELOPE} if self.modern else {}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **meta}}
        return json.dumps(message, separators=(",", ":"))

    def request(
        self, method: str, params: Mapping[str, object], name: str = ""
    ) -> dict[str, object]:
        """Return the result of a request with a JSON response."""
        result: dict[str, object] = json.loads(self.post(method, params, name))["result"]
        return result

    def post(self, method: str, params: Mapping[str, object], name: str = "") -> bytes:
        """Return the response body of a request."""
        _, body = _post(self, self.headers(method, name), self.message(method, params))
        return body


def wait_for(server: Server) -> None:
    """Wait until ``server`` responds. Raises NotStarted."""
    give_up = time.perf_counter() + START_LIMIT_S
    while time.perf_counter() < give_up:
        with contextlib.suppress(ConnectionRefusedError):
            Way(server=server).request("tools/list", {})
            return
        time.sleep(0.002)
    raise NotStarted(f"nothing answers at port {server.port}")


def opened(server: Server, path: str = JSON_PATH, *, events: bool = False) -> Way:
    """Open a session of the older era with JSON responses or event streams.

    A server may have no session ids, and agree on an older version.
    """
    way = Way(server=server, path=path, modern=False, events=events)
    initialize, initialized = opening_messages(way)
    session_id, answer = _post(way, way.headers("initialize"), initialize)
    agreed = re.search(rb'"protocolVersion":"([^"]+)"', answer)
    assert agreed is not None, answer[:500]
    session = {"mcp-protocol-version": agreed[1].decode()}
    if session_id is not None:
        session["mcp-session-id"] = session_id
    way = Way(server=server, path=path, modern=False, events=events, session=session)
    _post(way, way.headers("notifications/initialized"), initialized)
    return way


def opened_ways(server: Server) -> Mapping[str, Way]:
    """Return the ways to access a gateway by name, with open sessions."""
    return {
        "2026-07-28": Way(server=server),
        "2025-11-25, JSON": opened(server),
        "2025-11-25, events": opened(server, events=True),
    }


def opening_messages(way: Way) -> tuple[str, str]:
    """Return the messages that open a session of the older era."""
    notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return way.message("initialize", _INITIALIZE), notice


def read_section(way: Way, section_id: str) -> dict[str, object]:
    """Return a server's result for one section."""
    params = {"name": SECTION_TOOL, "arguments": {"doc_id": DOC_ID, "section_id": section_id}}
    return way.request("tools/call", params, SECTION_TOOL)


def read_over_mcp(way: Way, connections: int, calls: int) -> Turn:
    """Return calls that read the sections of one document, each with a separate id."""
    bodies = [
        way.message(
            "tools/call",
            {"name": SECTION_TOOL, "arguments": {"doc_id": DOC_ID, "section_id": section}},
            number,
        )
        for number, section in enumerate(SECTIONS * _CALLS_AT_ONCE, start=1)
    ]
    job = Job(
        port=way.server.port,
        path=way.path,
        bodies=bodies,
        headers=way.headers("tools/call", SECTION_TOOL),
        connections=connections,
        calls=calls,
        expected='"structuredContent":{',
        expected_each=[f'"id":{number},' for number, _ in enumerate(bodies, start=1)],
    )
    return Turn(server=way.server, job=job)


def _post(way: Way, headers: Mapping[str, str], body: str) -> tuple[str | None, bytes]:
    """Return the session id and the response body."""
    connection = http.client.HTTPConnection("127.0.0.1", way.server.port, timeout=REQUEST_LIMIT_S)
    with contextlib.closing(connection):
        sent = {**headers, "content-type": "application/json"}
        connection.request("POST", way.path, body.encode(), sent)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status in (200, 202), content[:500]
        return answer.getheader("mcp-session-id"), content
