from collections.abc import AsyncIterator

import pytest

from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS
from mcp_tools_proxy.wire.tracing import IDEMPOTENCY_KEY, REPLAYED_KEY
from tests.carriers.clients import McpClient, call_of
from tests.carriers.gateway import Carrier, Gateway, gateway_over, shared_gateway
from tests.support.tables import named_row

TOOLS = ("counter", "meta", "is_error", "hang")


@pytest.fixture(scope="module")
async def gateway(
    carrier: Carrier, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    async with shared_gateway(carrier, tmp_path_factory.mktemp("gateway"), *TOOLS) as it:
        yield it


@pytest.fixture(scope="module")
async def client(gateway: Gateway) -> McpClient:
    return await gateway.connect()


@pytest.mark.parametrize("tool", ["counter", "is_error"])
async def test_a_repeated_call_returns_the_first_result(
    gateway: Gateway, client: McpClient, tool: str
) -> None:
    before = gateway.server.script.calls[tool]
    first, again = [await client.call(tool, _meta={IDEMPOTENCY_KEY: tool}) for _ in range(2)]
    assert (first["content"], first.get("isError")) == (again["content"], again.get("isError"))
    assert [result["_meta"].get(REPLAYED_KEY) for result in (first, again)] == [None, True]
    assert gateway.server.script.calls[tool] == before + 1


async def test_another_call_with_the_same_key_is_a_conflict(client: McpClient) -> None:
    await client.call("meta", _meta={IDEMPOTENCY_KEY: "conflict"})
    result = await client.call("meta", {"a": 1}, _meta={IDEMPOTENCY_KEY: "conflict"})
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("IDEMPOTENCY_CONFLICT: ")


async def test_a_key_is_not_passed_to_servers(client: McpClient) -> None:
    """A gateway behind this one would mistake our callers' calls for those of one caller."""
    meta = {IDEMPOTENCY_KEY: "stays", "com.example/kept": 1}
    seen = (await client.call("meta", _meta=meta))["structuredContent"]
    assert ("com.example/kept" in seen, IDEMPOTENCY_KEY in seen) == (True, False)


async def test_an_invalid_key_is_refused(gateway: Gateway, client: McpClient) -> None:
    cases: list[object] = ["", "x" * 129, 7, "a\nb", ["k"]]
    for key in cases:
        with named_row(key):
            before = gateway.server.script.calls["counter"]
            message = await client.request(*call_request("counter", {IDEMPOTENCY_KEY: key}))
            assert message["error"]["code"] == INVALID_PARAMS
            assert IDEMPOTENCY_KEY in message["error"]["message"]
            assert gateway.server.script.calls["counter"] == before


def call_request(tool: str, meta: dict[str, object]) -> tuple[str, dict[str, object]]:
    return "tools/call", call_of(tool, _meta=meta)


async def test_a_call_that_its_client_cancels_is_not_repeated(
    carrier: Carrier,
) -> None:
    async with gateway_over(carrier, "hang") as gateway:
        client = await gateway.connect()
        params = call_of("hang", _meta={IDEMPOTENCY_KEY: "cancelled"})
        async with client.exchange("tools/call", params) as call:
            await gateway.until_running(1)
            await call.cancel()
            await gateway.until_cancelled(1)
        result = await client.call("hang", _meta={IDEMPOTENCY_KEY: "cancelled"})
        assert result["content"][0]["text"].startswith("OUTCOME_UNKNOWN: ")
        assert gateway.server.script.calls["hang"] == 1
