import json
from pathlib import Path

from tests.interop.conformance_suite import node22
from tests.mcp_server.clients.client_programs import output_of
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, started

PROGRAM = Path(__file__).parent / "batch_check.mjs"


async def test_the_transport_of_the_typescript_sdk_sends_a_batch(tmp_path: Path) -> None:
    names = ("echo", "progress")
    preset = make_preset(tools=[("s1", name) for name in names])
    servers = {"s1": raw_entry(only=names)}
    Config(servers=servers, presets=[preset]).write(tmp_path / "config")
    settings = {**UNLIMITED, "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1"}
    with started(tmp_path, settings) as program:
        program.wait_for_server()
        command = [node22(), str(PROGRAM), f"http://127.0.0.1:{program.port}/mcp"]
        version, listed, echoed, text = json.loads(await output_of(command, {}))
    assert version == "2025-03-26"
    assert {"s1:echo", "s1:progress"} <= {it.replace("__", ":") for it in listed}
    assert (echoed, text) == ({"n": 2}, "done")
