import asyncio

import pytest

from tests.carriers.clients import call_of, cancelled
from tests.carriers.gateway import (
    Carrier,
    gateway_over,
    legacy_carriers,
    server_eras,
)


@server_eras
async def test_a_call_that_its_client_cancels_is_cancelled_at_the_server(
    carrier: Carrier, server_era: str
) -> None:
    async with gateway_over(carrier, "hang", era=server_era) as gateway:
        client = await gateway.connect()
        async with client.exchange("tools/call", call_of("hang")) as call:
            await gateway.until_running(1)
            await call.cancel()
            await gateway.until_cancelled(1)
        assert gateway.server.script.running_count == 0


async def test_cancelling_a_call_does_not_end_another_clients_call(carrier: Carrier) -> None:
    """Over carriers with sessions, both calls have the same request id."""
    async with gateway_over(carrier, "hang", "sleep") as gateway, asyncio.TaskGroup() as tasks:
        client, other = await gateway.connect(), await gateway.connect()
        sleeping = tasks.create_task(other.all_messages("sleep", {"seconds": 0.5}))
        await gateway.until_running(1)
        async with client.exchange("tools/call", call_of("hang")) as call:
            await gateway.until_called("hang")
            await call.cancel()
            await gateway.until_cancelled(1)
            (response,) = await sleeping
        assert response["result"]["structuredContent"] == {"seconds": 0.5}
        assert gateway.server.script.cancelled_count == 1


@pytest.mark.requirement("W-04")
async def test_a_long_call_delays_no_other_call(carrier: Carrier) -> None:
    async with gateway_over(carrier, "hang", "echo") as gateway:
        client = await gateway.connect()
        async with client.exchange("tools/call", call_of("hang")) as hanging:
            await gateway.until_running(1)
            for text in ("one", "two"):
                assert (await client.call("echo", {"text": text}))["structuredContent"] == {
                    "text": text
                }
            await hanging.cancel()
            await gateway.until_cancelled(1)


@legacy_carriers
async def test_a_client_cannot_cancel_the_call_of_another_client(carrier: Carrier) -> None:
    async with gateway_over(carrier, "sleep") as gateway:
        client, other = await gateway.connect(), await gateway.connect()
        sleep = call_of("sleep", {"seconds": 0.5})
        async with client.exchange("tools/call", sleep) as call:
            await gateway.until_running(1)
            await other.send(cancelled(call.id))
            await other.result("tools/list")
            response = await anext(call.messages)
    assert response["result"]["structuredContent"] == {"seconds": 0.5}
