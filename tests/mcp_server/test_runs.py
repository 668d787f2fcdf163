"""Runs of MCP requests: by header, and one for each session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client

from mcp_tools_proxy.wire.tracing import RUN_KEY
from tests.support.configuration import Config, make_preset, write_json
from tests.support.mcp_endpoint import TENANT, Served, serving
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import CONFIG_DIR

LABELS = {"s1:meta": {"labels": ["reads_untrusted"]}, "s1:echo": {"labels": ["sends"]}}
POLICY = """
@id("no-send") @run("optional")
forbid(principal, action in Action::"label:sends", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted")
};
"""


@asynccontextmanager
async def gateway(**settings: Any) -> AsyncIterator[Served]:
    (CONFIG_DIR / "policies").mkdir(parents=True)
    (CONFIG_DIR / "policies" / "a.cedar").write_text(POLICY)
    write_json(CONFIG_DIR / "labels.json", {"tools": LABELS})
    preset = make_preset(tools=[("s1", "meta"), ("s1", "echo")])
    async with running_raw() as server:
        config = Config(servers={"s1": server.entry}, presets=[preset])
        async with serving(config=config, **settings) as served:
            yield served


async def refuses_to_send(client: Client) -> bool:
    return (await client.call_tool("s1:echo", {"to": "a"})).is_error is True


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse"])
@pytest.mark.parametrize("is_on", [True, False])
async def test_a_session_can_be_a_run(path: str, is_on: bool) -> None:
    async with gateway(runs_of_sessions=is_on) as served:
        for _ in range(2):
            async with served.client(path, mode="legacy") as client:
                assert not await refuses_to_send(client)
                await client.call_tool("s1:meta", {})
                assert await refuses_to_send(client) == is_on


async def test_the_header_names_a_run() -> None:
    async with gateway() as served:
        headers = {**TENANT, "X-Run-Id": uuid4().hex}
        for mode in ("auto", "legacy"):
            async with served.client(mode=mode, headers=headers) as client:
                assert await refuses_to_send(client) == (mode == "legacy")
                await client.call_tool("s1:meta", {})
        response = await served.request(
            "tools/call", {"name": "s1:meta", "arguments": {}}, headers={**TENANT, "X-Run-Id": ""}
        )
        assert "run" in response.json()["error"]["message"]
        for run_id, is_valid in (("ü", True), ("b", False)):
            response = await served.request(
                "tools/call",
                {"name": "s1:meta", "arguments": {}},
                headers={**TENANT, "X-Run-Id": "ü".encode()},  # type: ignore[dict-item]
                meta={RUN_KEY: {"id": run_id}},
            )
            assert ("error" not in response.json()) is is_valid
