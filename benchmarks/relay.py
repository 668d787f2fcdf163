"""An echo tool called directly, through the service, and through a forwarder without logic."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bench import Bench, Measured, medians
from benchmarks.configuration import over_http, over_stdio, write_configuration
from benchmarks.echo import ECHO, PREFIX
from benchmarks.fleet import wait_until_ready
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, JSON_RPC, OK, call, tools_call
from benchmarks.report import Result, Target, at_connections
from benchmarks.responder import LEGACY_PATH, MODERN_PATH, SSE_PATH
from benchmarks.servers import Server, fleet, forwarder, gateway

CONNECTIONS = (1, 32)
HEADER = (
    "candidate",
    "connections",
    "CPU ms/call",
    "p50 ms",
    "added p50 ms",
    "p99 ms",
    "errors",
    "CPU / forwarder",
)

DIRECT = "called directly (CPU of the bare server)"
FORWARDER = "forwarder without logic"
_HTTP = {
    "service, HTTP, modern": ("modern", MODERN_PATH),
    "service, HTTP, legacy": ("legacy", LEGACY_PATH),
    "service, HTTP, modern, answers as events": ("events", SSE_PATH),
}
_STDIO, _STDIO_ID = "service, stdio", "stdio"
_LIMITS = {"service, HTTP, modern": 1.3, "service, HTTP, legacy": 1.3, _STDIO: 1.6}
_TEXTS = tuple(f"message {n}: is the door of the north hall closed at night?" for n in range(20))
_WARM_UP = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """Where calls go, and what they say; ``expected`` is in every answer besides the echo."""

    server: Server
    path: str
    bodies: Sequence[str]
    expected: str

    def job(self, connections: int, calls: int) -> Job:
        return Job(
            port=self.server.port,
            path=self.path,
            bodies=list(self.bodies),
            connections=connections,
            calls=calls,
            expected=self.expected,
            expected_each=[f'"text":"{PREFIX}{text}"' for text in _TEXTS],
        )


_Key = tuple[str, int]


def measure_relay(bench: Bench) -> Result:
    """Measure the candidates by turns; everything that the service does on a call is on.

    Each is warmed up before each of its turns: four of them are one process, so that the first of
    the four would warm up for the others.
    """
    calls = bench.sizes.relay_calls
    with ExitStack() as stack:
        candidates = _start(bench, stack)
        rounds: dict[_Key, list[Measured]] = {
            (name, connections): [] for connections in CONNECTIONS for name in candidates
        }
        for number in range(bench.sizes.relay_rounds):
            bench.show_progress(f"  relay: round {number + 1} of {bench.sizes.relay_rounds}")
            for (name, connections), found in rounds.items():
                candidate = candidates[name]
                warm_up = candidate.job(connections, int(calls * _WARM_UP))
                bench.measure(candidate.server, warm_up)
                found.append(bench.measure(candidate.server, candidate.job(connections, calls)))
    return _report({key: medians(found) for key, found in rounds.items()})


def _start(bench: Bench, stack: ExitStack) -> Mapping[str, _Candidate]:
    (bare,) = stack.enter_context(fleet(bench.workdir))
    url = f"http://127.0.0.1:{bare.port}{MODERN_PATH}"
    forwarding = stack.enter_context(forwarder(bench.workdir, url))
    servers = {server_id: over_http(bare.port, path) for server_id, path in _HTTP.values()}
    servers[_STDIO_ID] = over_stdio("benchmarks.responder_stdio")
    settings = write_configuration(
        bench.workdir / "relay-config", servers, {"echoes": [(one, ECHO) for one in servers]}
    )
    service = stack.enter_context(gateway(bench.workdir, bench.folder("relay"), settings))
    wait_until_ready(service, len(servers))
    forwarding.wait_for(call(ECHO, text=_TEXTS[0]), expected=JSON_RPC)
    return {
        DIRECT: _Candidate(
            server=bare,
            path=MODERN_PATH,
            bodies=[tools_call(ECHO, text=text) for text in _TEXTS],
            expected=JSON_RPC,
        ),
        FORWARDER: _executes(forwarding, ECHO, JSON_RPC),
        **{name: _executes(service, f"{one}:{ECHO}", OK) for name, (one, _) in _HTTP.items()},
        _STDIO: _executes(service, f"{_STDIO_ID}:{ECHO}", OK),
    }


def _executes(server: Server, tool_name: str, expected: str) -> _Candidate:
    bodies = [call(tool_name, text=text) for text in _TEXTS]
    return _Candidate(server=server, path=EXECUTE, bodies=bodies, expected=expected)


def _report(measured: Mapping[_Key, Measured]) -> Result:
    result = Result("An echo tool of a downstream server", HEADER)
    for (name, connections), found in measured.items():
        added_ms = found.p50_ms - measured[DIRECT, connections].p50_ms
        ratio = found.cpu_ms / measured[FORWARDER, connections].cpu_ms
        result.rows.append(
            (
                name,
                str(connections),
                f"{found.cpu_ms:.3f}",
                f"{found.p50_ms:.2f}",
                "-" if name == DIRECT else f"{added_ms:+.2f}",
                f"{found.p99_ms:.2f}",
                str(found.errors),
                "-" if name == DIRECT else f"{ratio:.2f}",
            )
        )
        if name in _LIMITS:
            at = f"{name}, {at_connections(connections)}"
            result.targets.append(
                Target(
                    name=f"CPU / forwarder's, {at}", limit=_LIMITS[name], measured=ratio, unit="x"
                )
            )
    errors = sum(found.errors for found in measured.values())
    result.targets.append(Target(name="errors", limit=0, measured=errors, unit="calls"))
    return result
