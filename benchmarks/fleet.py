"""Twenty downstream servers, one of them late: how long until they serve, and their memory."""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.configuration import Reference, over_http, write_configuration
from benchmarks.echo import invented_tool
from benchmarks.memory import call_without_document
from benchmarks.messages import EXECUTE, SERVERS
from benchmarks.report import Result, Target
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import Lateness, NotStarted, Server, fleet, gateway

FLEET_SERVERS = 20
FLEET_TOOLS = 50
LATE_S = 3.0

_ALWAYS = 10**6
_READY_LIMIT_S = 30.0
_PAUSE_S = 0.02


def fleet_configuration(folder: Path, servers: Sequence[Server]) -> Mapping[str, str]:
    """Configure the fleet, and two presets that select each of the invented tools."""
    references = fleet_references()
    return write_configuration(
        folder, fleet_entries(servers), {"one": references, "other": references}
    )


def fleet_entries(servers: Sequence[Server]) -> dict[str, Mapping[str, object]]:
    """Describe the servers of the fleet, by their ids."""
    return {f"server-{n:02}": over_http(one.port, MODERN_PATH) for n, one in enumerate(servers)}


def fleet_references() -> list[Reference]:
    """Name each of the invented tools."""
    names = [str(invented_tool(number)["name"]) for number in range(FLEET_TOOLS)]
    return [(f"server-{n:02}", name) for n in range(FLEET_SERVERS) for name in names]


def wait_until_ready(service: Server, count: int) -> float:
    """Wait for that many ready servers and give the time (perf_counter). Raises NotStarted."""
    give_up = time.perf_counter() + _READY_LIMIT_S
    while (now := time.perf_counter()) < give_up:
        with contextlib.suppress(ConnectionRefusedError):
            answer = json.loads(service.request(SERVERS, method="GET", expected='"servers"'))
            if sum(one["state"] == "ready" for one in answer["servers"]) >= count:
                return now
        time.sleep(_PAUSE_S)
    raise NotStarted(f"{count} downstream servers are not ready: {answer}")


def measure_fleet(bench: Bench) -> Result:
    """Start the service beside the fleet: all prompt, one's first answer late, all of its late."""
    result = Result(
        f"{FLEET_SERVERS} servers x {FLEET_TOOLS} tools",
        (
            "seconds from the start of the process until",
            "it serves",
            f"{FLEET_SERVERS - 1} are ready",
            f"all {FLEET_SERVERS} are",
            "RSS MB",
        ),
    )
    result.rows.append(_without_servers(bench))
    result.rows.append(_started(bench, "no server is late", Lateness())[1])
    late = Lateness(seconds=LATE_S, answers=1)
    times, row = _started(bench, f"one server's first answer takes {LATE_S:.0f} s", late)
    result.rows.append(row)
    others_s, all_s = times[1] - times[0], times[2] - times[0]
    late = Lateness(seconds=LATE_S, answers=_ALWAYS)
    result.rows.append(_started(bench, f"each of its answers takes {LATE_S:.0f} s", late)[1])
    result.targets = [
        Target(name="serving until the others are ready", limit=1, measured=others_s, unit="s"),
        Target(name="serving until all are, the first late", limit=4, measured=all_s, unit="s"),
    ]
    return result


def _without_servers(bench: Bench) -> tuple[str, ...]:
    begun = time.perf_counter()
    with gateway(bench.workdir, bench.folder("fleet-none")) as service:
        service.wait_for(call_without_document(), EXECUTE)
        served_s = time.perf_counter() - begun
        return "no servers", f"{served_s:.2f}", "-", "-", f"{service.rss_bytes() / 1e6:.1f}"


def _started(
    bench: Bench, title: str, late: Lateness
) -> tuple[tuple[float, float, float], tuple[str, ...]]:
    bench.show_progress(f"  fleet: {title}")
    name = f"fleet-{late.answers}"
    with fleet(bench.workdir, FLEET_SERVERS, tools=FLEET_TOOLS, late=late) as servers:
        settings = fleet_configuration(bench.workdir / f"{name}-config", servers)
        documents = bench.folder(name)
        begun = time.perf_counter()
        with gateway(bench.workdir, documents, settings) as service:
            served = wait_until_ready(service, 0)
            others = wait_until_ready(service, FLEET_SERVERS - 1)
            everyone = wait_until_ready(service, FLEET_SERVERS)
            rss_mb = service.rss_bytes() / 1e6
    times = (served - begun, others - begun, everyone - begun)
    return times, (title, *(f"{seconds:.2f}" for seconds in times), f"{rss_mb:.1f}")
