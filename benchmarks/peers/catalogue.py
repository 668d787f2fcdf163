"""The peers: how each is started in front of the echo server, and where the tool is called."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.configuration import over_stdio
from benchmarks.echo import ECHO, LEGACY, MODERN
from benchmarks.peers.endpoints import (
    HTTP_API,
    LOOPBACK,
    SERVER_ID,
    Endpoint,
    open_hub_api,
    open_mcp,
)
from benchmarks.peers.fetching import Package
from benchmarks.peers.process_tree import ECHO_COMMAND, ECHO_MODULE
from benchmarks.servers import Server

_NEVER_STALE_MS = 10**14


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An endpoint of a peer, and the one of ours that is compared with it."""

    theirs: str
    ours: str
    open: Callable[[Server], Endpoint]

    @property
    def label(self) -> str:
        """Return what both speak."""
        return self.theirs if self.theirs == self.ours else f"{self.theirs}, ours: {self.ours}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A gateway of others; ``command`` builds its command from the folder and port given."""

    key: str
    package: Package
    command: Callable[[Package, Path, int], list[str]]
    routes: Sequence[Route]
    not_measured: str = ""
    """What is left out, and why."""

    @property
    def title(self) -> str:
        """Return the name with the version."""
        kind = "npm" if self.package.is_node else "Python"
        return f"{self.package.name} {self.package.version} ({kind})"


def environment_of(home: Path) -> Mapping[str, str]:
    """Return a peer's environment: nothing of the caller's, and no request to another host."""
    return {"HOME": str(home), "FASTMCP_CHECK_FOR_UPDATES": "off"}


def _mcp(era: str) -> Route:
    return Route(theirs=era, ours=era, open=partial(open_mcp, era=era, tool=ECHO))


def _configuration(home: Path) -> Path:
    """Write the file that the clients of MCP have in common."""
    file = home / "servers.json"
    servers = {"mcpServers": {SERVER_ID: over_stdio(ECHO_MODULE)}}
    file.write_text(json.dumps(servers), encoding="utf-8")
    return file


def _npm_mcp_proxy(package: Package, _: Path, port: int) -> list[str]:
    options = ["--host", LOOPBACK, "--port", str(port), "--server", "stream"]
    return [*package.program("dist/bin/mcp-proxy.mjs"), *options, "--", *ECHO_COMMAND]


def _supergateway(package: Package, _: Path, port: int) -> list[str]:
    options = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port)]
    return [*package.program("dist/index.js"), *options, "--stdio", shlex.join(ECHO_COMMAND)]


def _mcp_hub(package: Package, home: Path, port: int) -> list[str]:
    """Start with a catalogue in its cache: without one, mcp-hub fetches that from the web."""
    cache = home / ".local/share/mcp-hub/cache"
    cache.mkdir(parents=True)
    catalogue = {"registry": {"servers": [{"id": "none"}]}, "lastFetchedAt": _NEVER_STALE_MS}
    cached = {**catalogue, "serverDocumentation": {}}
    (cache / "registry.json").write_text(json.dumps(cached), encoding="utf-8")
    options = ["--port", str(port), "--config", str(_configuration(home))]
    return [*package.program("dist/cli.js"), *options]


def _python_mcp_proxy(package: Package, _: Path, port: int) -> list[str]:
    return [*package.program("mcp-proxy"), "--port", str(port), "--", *ECHO_COMMAND]


def _fastmcp(package: Package, home: Path, port: int) -> list[str]:
    options = ["--transport", "http", "--host", LOOPBACK, "--port", str(port), "--no-banner"]
    return [*package.program("fastmcp"), "run", str(_configuration(home)), *options]


PEERS = (
    Peer(
        key="npm-mcp-proxy",
        package=Package("mcp-proxy", is_node=True),
        command=_npm_mcp_proxy,
        routes=(
            _mcp(MODERN),
            _mcp(LEGACY),
            Route(theirs=MODERN, ours=HTTP_API, open=_mcp(MODERN).open),
        ),
    ),
    Peer(
        key="mcp-hub",
        package=Package("mcp-hub", is_node=True),
        command=_mcp_hub,
        routes=(Route(theirs=HTTP_API, ours=HTTP_API, open=open_hub_api),),
        not_measured="its MCP endpoint is HTTP with SSE of 2024-11-05, no streamable HTTP",
    ),
    Peer(
        key="supergateway",
        package=Package("supergateway", is_node=True),
        command=_supergateway,
        routes=(_mcp(LEGACY),),
        not_measured=f"for {MODERN} it starts the stdio server anew for every call",
    ),
    Peer(
        key="python-mcp-proxy",
        package=Package("mcp-proxy", is_node=False),
        command=_python_mcp_proxy,
        routes=(_mcp(LEGACY),),
        not_measured=f"it does not speak {MODERN}",
    ),
    Peer(
        key="fastmcp",
        package=Package("fastmcp", is_node=False),
        command=_fastmcp,
        routes=(_mcp(MODERN), _mcp(LEGACY)),
    ),
)
