from tests.carriers.clients import McpClient
from tests.carriers.gateway import (
    Carrier,
    gateway_over,
    legacy_carriers,
    modern_carriers,
    server_eras,
)
from tests.support.mcp_endpoint import LEGACY
from tests.support.relay_samples import LOG_LINES, PROGRESS

LEVEL = "io.modelcontextprotocol/logLevel"
URI = "raw://text"


async def levels_received(client: McpClient, level: str | None) -> list[str]:
    """Return the levels of the log lines that a client with this minimum level receives."""
    meta = {"progressToken": 1}
    if client.era != LEGACY and level is not None:
        meta |= {LEVEL: level}  # type: ignore[dict-item] # JSON
    elif level is not None:
        await client.result("logging/setLevel", {"level": level})
    *lines, _ = await client.all_messages("notify", {"messages": LOG_LINES}, _meta=meta)
    assert [it["params"]["data"] for it in lines] == [{"é": it["params"]["level"]} for it in lines]
    return [it["params"]["level"] for it in lines]


@server_eras
async def test_progress_arrives_under_the_clients_own_token_before_the_result(
    carrier: Carrier, server_era: str
) -> None:
    async with gateway_over(carrier, "progress", era=server_era, sse=True) as gateway:
        client = await gateway.connect()
        *notes, response = await client.all_messages("progress", _meta={"progressToken": "mine"})
        unwanted = await client.all_messages("progress")
    assert [
        (it["method"], it["params"]["progressToken"], it["params"]["progress"]) for it in notes
    ] == [(PROGRESS, "mine", 1), (PROGRESS, "mine", 2)]
    assert response["result"]["content"][0]["text"] == "done"
    assert [it["result"]["content"][0]["text"] for it in unwanted] == ["done"]


@legacy_carriers
@server_eras
async def test_a_legacy_client_receives_log_lines_of_its_level_and_above(
    carrier: Carrier, server_era: str
) -> None:
    """Without a level it receives all lines."""
    async with gateway_over(carrier, "notify", era=server_era, sse=True) as gateway:
        client = await gateway.connect()
        received = {level: await levels_received(client, level) for level in LEVELS_LEGACY}
    assert received == LEVELS_LEGACY


@modern_carriers
@server_eras
async def test_a_modern_client_receives_log_lines_of_its_requests_level_and_above(
    carrier: Carrier, server_era: str
) -> None:
    """Without a level it receives none."""
    async with gateway_over(carrier, "notify", era=server_era, sse=True) as gateway:
        client = await gateway.connect()
        received = {level: await levels_received(client, level) for level in LEVELS_MODERN}
    assert received == LEVELS_MODERN


LEVELS_LEGACY: dict[str | None, list[str]] = {
    None: ["debug", "warning", "critical"],
    "warning": ["warning", "critical"],
    "emergency": [],
}
LEVELS_MODERN: dict[str | None, list[str]] = {
    None: [],
    "debug": ["debug", "warning", "critical"],
    "error": ["critical"],
}


async def test_notifications_arrive_in_order_and_before_the_result(carrier: Carrier) -> None:
    count = 50  # above 64, notifications for a slow client are dropped
    lines = [
        {"method": "notifications/message", "params": {"level": "error", "data": number}}
        for number in range(count)
    ]
    async with gateway_over(carrier, "notify", era="legacy", sse=True) as gateway:
        client = await gateway.connect()
        meta = {} if client.era == LEGACY else {"_meta": {LEVEL: "debug"}}
        *notes, response = await client.all_messages("notify", {"messages": lines}, **meta)
    assert [it["params"]["data"] for it in notes] == list(range(count))
    assert "result" in response


@legacy_carriers
@server_eras
async def test_a_legacy_client_is_notified_about_resources_it_subscribed_to(
    carrier: Carrier, server_era: str
) -> None:
    other = "raw://item/7"
    async with gateway_over(carrier, "touch", era=server_era, sse=True) as gateway:
        client = await gateway.connect()
        await client.result("resources/subscribe", {"uri": URI})
        async with client.notifications() as messages:
            for uri in (other, URI):
                await client.call("touch", {"uri": uri})
            message = await anext(messages)
    assert (message["method"], message["params"]["uri"]) == ("notifications/resources/updated", URI)


@modern_carriers
@server_eras
async def test_a_modern_client_is_notified_about_resources_it_listens_to(
    carrier: Carrier, server_era: str
) -> None:
    wanted = {"notifications": {"resourceSubscriptions": [URI]}}
    async with gateway_over(carrier, "touch", era=server_era, sse=True) as gateway:
        client = await gateway.connect()
        async with client.exchange("subscriptions/listen", wanted) as listening:
            await anext(listening.messages)
            for uri in ("raw://item/7", URI):
                await client.call("touch", {"uri": uri})
            message = await anext(listening.messages)
    assert (message["method"], message["params"]["uri"]) == ("notifications/resources/updated", URI)
