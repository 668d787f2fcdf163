from ipaddress import ip_network
from pathlib import Path
from typing import Any

from mcp_tools_proxy.config.entry_rules import READABLE, NetworkSupport
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.networks import ServerNetworks
from tests.support.configuration import Json
from tests.support.tables import each_row
from tests.unit.config.load_files import write_json

REFUSED_HOSTS = (
    *("169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376"),
    *("169.16689662", "0xa9.0xfe.43518", "[fe80::1]", "[fd00:ec2::254]", "[fd00:ec2::23]"),
    *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "100.100.100.200"),
    *("[64:ff9b::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[2002:a9fe:a9fe::1]"),
    *("[64:ff9b:1:aba9:fe:a9fe::]", "[64:ff9b:1:abcd:a9:fea9:fe00:0]", "[64:ff9b:1::a9fe:a9fe]"),
    *("[2001:0:1:2:3:4:5601:5601]", "168.63.129.16", "[::ffff:100.100.100.200]", "[fd00:42::42]"),
)
ALLOWED_HOSTS = (
    *("127.0.0.1", "localhost", "[::1]", "10.1.2.3", "mcp.example.com", "8.8.8.8", "[fd00::1]"),
    *("[64:ff9b::5601:1]", "100.64.0.1", "[2606:4700::1111]", "notes"),
)
SECRET: Json = {"headers": {"Authorization": "Bearer x"}}


def loaded(folder: Path, entry: Json, support: NetworkSupport | None = None) -> Configuration:
    write_json(folder, "mcp.json", {"mcpServers": {"notes": entry}})
    return load_configuration(
        folder, {"HOST": "169.254.1.1"}, call_timeout_s=60, max_result_bytes=1000, network=support
    )


def problem(folder: Path, entry: Json, support: NetworkSupport | None = None) -> str | None:
    found = loaded(folder, entry, support).invalid.get("notes", ())
    assert all(it.path == "$.mcpServers.notes.url" for it in found)
    return found[0].message if found else None


@each_row("host", REFUSED_HOSTS)
def test_link_local_and_metadata_addresses_are_refused(tmp_path: Path, host: str) -> None:
    for scheme in ("http", "https", "ws", "wss"):
        found = problem(tmp_path, {"url": f"{scheme}://{host}/mcp"})
        assert found is not None
        assert "is not allowed" in found
    assert problem(tmp_path, {"url": f"http://{host}:80/sse", "transport": "sse"}) is not None


def test_a_forbidden_address_from_a_variable_is_refused(tmp_path: Path) -> None:
    assert problem(tmp_path, {"url": "http://${HOST}/mcp"}) is not None


@each_row("host", ALLOWED_HOSTS)
def test_other_addresses_are_accepted(tmp_path: Path, host: str) -> None:
    assert problem(tmp_path, {"url": f"http://{host}:8000/mcp"}) is None


def test_a_setting_can_narrow_the_networks_but_not_widen_them(tmp_path: Path) -> None:
    networks = tuple(map(ip_network, ("10.0.0.0/8", "169.254.0.0/16", "fe80::/10")))
    support = NetworkSupport(networks=ServerNetworks(networks=networks))
    assert problem(tmp_path, {"url": "http://10.1.2.3/mcp"}, support) is None
    assert problem(tmp_path, {"url": "http://[::ffff:10.1.2.3]/mcp"}, support) is None
    for host in ("127.0.0.1", "11.0.0.1", "[64:ff9b::a01:203]", "169.254.169.254", "[fe80::1]"):
        assert problem(tmp_path, {"url": f"http://{host}/mcp"}, support) is not None


@each_row(
    "entry",
    [
        {"url": "http://mcp.example.com/mcp", **SECRET},
        {"url": "ws://10.0.0.1/mcp", "headers": {"X-Key": "k"}},
        {"url": "http://mcp.example.com/sse", "transport": "sse", **SECRET},
        {"url": "http://ann:secret@mcp.example.com/mcp"},
    ],
)
def test_credentials_without_tls_are_a_warning_or_refused(tmp_path: Path, entry: Json) -> None:
    warned = loaded(tmp_path, entry)
    assert [it.message for it in warned.warnings if it.path.endswith(".url")] == [READABLE]
    assert not warned.invalid
    assert "MCP_PROXY_SERVER_REQUIRE_TLS" in str(
        problem(tmp_path, entry, NetworkSupport(requires_tls=True))
    )


@each_row(
    "entry",
    [
        {"url": "https://mcp.example.com/mcp", **SECRET},
        {"url": "wss://mcp.example.com/mcp", **SECRET},
        {"url": "http://127.0.0.1:8000/mcp", **SECRET},
        {"url": "http://localhost:8000/mcp", **SECRET},
        {"url": "http://mcp.example.com/mcp"},
        {"command": "notes"},
    ],
)
def test_other_entries_are_accepted_without_a_warning(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    found = loaded(tmp_path, entry, NetworkSupport(requires_tls=True))
    assert not [it for it in found.warnings if it.message == READABLE]
    assert not found.invalid
