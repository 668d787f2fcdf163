"""Calls of a downstream echo tool: over the HTTP API, over MCP, and directly."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from benchmarks.bench import Bench
from benchmarks.configuration import over_http, write_configuration
from benchmarks.echo import ECHO, PREFIX
from benchmarks.facade_messages import Way
from benchmarks.fleet import wait_until_ready
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, JSON_RPC, OK, call, tools_call
from benchmarks.paired import Turn
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import Server, gateway

SERVER = "echo"
PRESET = "echoes"
TOOL = f"{SERVER}:{ECHO}"
TEXTS = tuple(f"message {n}: is the door of the north hall closed at night?" for n in range(320))
"""Enough texts that no text or id is used twice concurrently."""

_EACH = [f'"text":"{PREFIX}{text}"' for text in TEXTS]


def echo_configuration(folder: Path, downstream: Server) -> Mapping[str, str]:
    """Configure a gateway with one server."""
    servers = {SERVER: over_http(downstream.port, MODERN_PATH)}
    return write_configuration(folder, servers, {PRESET: [(SERVER, ECHO)]})


@contextmanager
def echo_gateway(
    bench: Bench,
    name: str,
    downstream: Server,
    *doc_ids: str,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Server]:
    """Run a gateway with one ready server, documents, and further settings."""
    configured = echo_configuration(bench.workdir / f"{name}-config", downstream)
    documents = bench.folder(name, *doc_ids)
    with gateway(bench.workdir, documents, {**configured, **settings}) as service:
        wait_until_ready(service, 1)
        yield service


def executed(
    server: Server, connections: int, calls: int, *, tool: str = TOOL, expected: str = OK
) -> Turn:
    """Return calls over the HTTP API."""
    bodies = [call(tool, text=text) for text in TEXTS]
    return posted(server, bodies, expected, connections, calls, each=_EACH)


def called_directly(downstream: Server, connections: int, calls: int) -> Turn:
    """Return calls to the server itself."""
    bodies = [tools_call(ECHO, text=text) for text in TEXTS]
    return posted(downstream, bodies, JSON_RPC, connections, calls, each=_EACH, path=MODERN_PATH)


def posted(
    server: Server,
    bodies: Sequence[str],
    expected: str,
    connections: int,
    calls: int,
    *,
    each: Sequence[str] = (),
    path: str = EXECUTE,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Turn:
    """Return a turn that sends the bodies."""
    job = Job(
        port=server.port,
        path=path,
        bodies=list(bodies),
        headers=dict(headers),
        connections=connections,
        calls=calls,
        expected=expected,
        expected_each=list(each),
    )
    return Turn(server=server, job=job)


def called_over_mcp(way: Way, connections: int, calls: int, *, tool: str = TOOL) -> Turn:
    """Return calls over MCP."""
    bodies = [
        way.message("tools/call", {"name": tool, "arguments": {"text": text}}, number)
        for number, text in enumerate(TEXTS, start=1)
    ]
    return posted(
        way.server,
        bodies,
        '"result":{',
        connections,
        calls,
        each=_EACH,
        path=way.path,
        headers=way.headers("tools/call", tool),
    )
