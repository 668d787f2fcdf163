"""The number of worker processes, and the limits that they share."""

from pathlib import Path

import pytest

from mcp_tools_proxy.app.configuration import divided_among
from mcp_tools_proxy.app.workers import usable_cpus
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig
from mcp_tools_proxy.domain.server import ServerConfig, Transport

HTTP = ServerConfig(
    server_id="wiki",
    transport=Transport.STREAMABLE_HTTP,
    max_calls_in_flight=9,
    max_calls_in_flight_per_tenant=5,
)
STDIO = ServerConfig(server_id="notes", transport=Transport.STDIO, max_calls_in_flight=1)


def configuration(*servers: ServerConfig) -> Configuration:
    return Configuration(servers={it.server_id: it for it in servers})


def test_workers_share_the_calls_in_flight_but_not_those_of_stdio_servers() -> None:
    servers = divided_among(4, configuration(HTTP, STDIO)).servers
    wiki = servers["wiki"]
    assert (wiki.max_calls_in_flight, wiki.max_calls_in_flight_per_tenant) == (2, 1)
    assert servers["notes"] == STDIO


def test_limits_below_the_number_of_workers_are_refused() -> None:
    with pytest.raises(InvalidConfig) as refused:
        divided_among(6, configuration(HTTP, STDIO))
    assert [it.path for it in refused.value.problems] == [
        "$.mcpServers.wiki.maxCallsInFlightPerTenant"
    ]


def test_one_process_has_the_whole_limits() -> None:
    whole = configuration(HTTP)
    assert divided_among(1, whole) is whole


@pytest.mark.parametrize(
    ("files", "own", "cpus"),
    [
        ({"cpu.max": "150000 100000"}, "0::/", 1),
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b", 1),
        ({"cpu/c/cpu.cfs_quota_us": "100000", "cpu/c/cpu.cfs_period_us": "100000"}, "3:cpu:/c", 1),
        ({"cpu/c/cpu.cfs_quota_us": "-1"}, "3:cpu,cpuacct:/c", None),
        ({"cpu.max": "10000 100000"}, "0::/somewhere/else", 1),
        ({"cpu.max": "garbage"}, "0::/", None),
    ],
)
def test_a_limit_of_a_cgroup_counts(
    tmp_path: Path, files: dict[str, str], own: str, cpus: int | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    groups = tmp_path / "groups"
    groups.write_text(f"{own}\n")
    without_limit = usable_cpus(tmp_path / "none", tmp_path / "none")
    assert usable_cpus(tmp_path, groups) == (without_limit if cpus is None else cpus)
