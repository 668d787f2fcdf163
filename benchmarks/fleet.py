"""Configuration of twenty downstream servers with fifty tools each."""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.configuration import Reference, over_http, write_configuration
from benchmarks.echo import invented_tool
from benchmarks.messages import SERVERS
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import NotStarted, Server

FLEET_SERVERS = 20
FLEET_TOOLS = 50

_READY_LIMIT_S = 30.0
_PAUSE_S = 0.02


def fleet_configuration(folder: Path, servers: Sequence[Server]) -> Mapping[str, str]:
    """Configure the fleet, and two presets that each contain all fictitious tools."""
    references = fleet_references()
    return write_configuration(
        folder, fleet_entries(servers), {"one": references, "other": references}
    )


def fleet_entries(servers: Sequence[Server]) -> dict[str, Mapping[str, object]]:
    """Return the entries of the fleet's servers by id."""
    return {f"server-{n:02}": over_http(one.port, MODERN_PATH) for n, one in enumerate(servers)}


def fleet_references() -> list[Reference]:
    """Return the references to all fictitious tools."""
    names = [str(invented_tool(number)["name"]) for number in range(FLEET_TOOLS)]
    return [(f"server-{n:02}", name) for n in range(FLEET_SERVERS) for name in names]


def wait_until_ready(service: Server, count: int) -> float:
    """Wait for ``count`` ready servers and return the time (perf_counter). Raises NotStarted."""
    give_up = time.perf_counter() + _READY_LIMIT_S
    while (now := time.perf_counter()) < give_up:
        with contextlib.suppress(ConnectionRefusedError):
            answer = json.loads(service.request(SERVERS, method="GET", expected='"servers"'))
            if sum(one["state"] == "ready" for one in answer["servers"]) >= count:
                return now
        time.sleep(_PAUSE_S)
    raise NotStarted(f"{count} downstream servers are not ready: {answer}")
