"""Runs and policies over each carrier."""

from collections.abc import AsyncIterator
from contextlib import chdir
from uuid import uuid4

import pytest

from mcp_tools_proxy.mcp.server.results import ERROR_KEY
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS
from mcp_tools_proxy.wire.tracing import RUN_KEY
from tests.carriers.clients import McpClient, call_of
from tests.carriers.gateway import Carrier, Gateway, gateway_over
from tests.support.configuration import Json, write_json
from tests.support.service import CONFIG_DIR
from tests.support.tables import named_row

LABELS = {
    "s1:meta": {"labels": ["reads_untrusted"]},
    "s1:echo": {"labels": ["sends"], "targets": ["to"]},
}
POLICY = """
@id("no-send") @message("Ask the user.")
forbid(principal, action in Action::"label:sends", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted") &&
  context.target.contains("text")
};
@id("ask") @mode("approve") @run("optional")
forbid(principal, action == Action::"s1:echo", resource) when {
  context.args has text && context.args.text == "ask"
};
"""


@pytest.fixture(scope="module")
async def gateway(
    carrier: Carrier, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    with chdir(tmp_path_factory.mktemp("gateway")):
        (CONFIG_DIR / "policies").mkdir(parents=True)
        (CONFIG_DIR / "policies" / "a.cedar").write_text(POLICY)
        write_json(CONFIG_DIR / "labels.json", {"tools": LABELS})
        async with gateway_over(carrier, "meta", "echo") as gateway:
            yield gateway


@pytest.fixture(scope="module")
async def client(gateway: Gateway) -> McpClient:
    return await gateway.connect()


def of_run(**more: object) -> Json:
    return {"_meta": {RUN_KEY: {"id": uuid4().hex, **more}}}


def text_of(result: Json) -> str:
    return str(result["content"][0]["text"])


async def test_nothing_is_sent_after_foreign_text_but_to_the_users_targets(
    client: McpClient,
) -> None:
    run = of_run(task="Write to bob@a.com.")
    eve, bob = {"to": "eve@evil.io"}, {"to": "bob@a.com"}
    assert not (await client.call("echo", eve, **run)).get("isError")
    await client.call("meta", **run)
    refused = await client.call("echo", eve, **run)
    assert (refused["isError"], text_of(refused)) == (True, "POLICY_DENIED: Ask the user.")
    assert not (await client.call("echo", bob, **run)).get("isError")


async def test_policies_that_need_a_run_refuse_calls_without(client: McpClient) -> None:
    assert text_of(await client.call("echo", {"to": "a"})).startswith("RUN_REQUIRED: ")


async def test_a_call_waits_for_an_approval(gateway: Gateway, client: McpClient) -> None:
    before = gateway.server.script.calls["echo"]
    run = of_run()
    answers = [await client.call("echo", {"text": "ask", "to": "a"}, **run) for _ in range(2)]
    for it in answers:
        assert it["isError"]
        assert text_of(it).startswith("APPROVAL_PENDING: ")
    details = [it["_meta"][ERROR_KEY]["details"] for it in answers]
    assert [it["policy_ids"] for it in details] == [["ask"], ["ask"]]
    ids = {it["approval_id"] for it in details}
    assert (len(ids), gateway.server.script.calls["echo"]) == (1, before)


async def test_declared_tools_are_enforced(gateway: Gateway, client: McpClient) -> None:
    before = gateway.server.script.calls["echo"]
    run = of_run(tools=["s1__meta", "s1:meta"])
    refused = await client.call("echo", {"to": "a"}, **run)
    assert text_of(refused).startswith("POLICY_DENIED: ")
    assert not (await client.call("meta", **run)).get("isError")
    assert gateway.server.script.calls["echo"] == before


async def test_a_run_is_not_passed_to_servers(client: McpClient) -> None:
    """A gateway behind this one would take our runs for its own."""
    seen = (await client.call("meta", **of_run()))["structuredContent"]
    assert RUN_KEY not in seen


async def test_an_invalid_run_is_refused(client: McpClient) -> None:
    cases: list[object] = ["r", {}, {"id": ""}, {"id": "r", "tools": "a"}, {"id": "r", "x": 1}]
    for run in cases:
        with named_row(str(run)):
            message = await client.request("tools/call", call_of("meta", _meta={RUN_KEY: run}))
            assert message["error"]["code"] == INVALID_PARAMS
            assert RUN_KEY in message["error"]["message"]
