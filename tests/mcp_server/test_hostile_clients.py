import asyncio
import json

import pytest

from mcp_tools_proxy.domain.server import DEFAULT_CALLS_IN_FLIGHT
from mcp_tools_proxy.mcp.server.subscriptions import MAX_RESOURCES
from tests.support.configuration import Json, make_preset, write_json
from tests.support.mcp_endpoint import (
    BOTH,
    INITIALIZE,
    LEGACY,
    MODERN,
    TENANT,
    Served,
    answer,
    serving,
)
from tests.support.raw_mcp_client import (
    ERAS,
    RawMcpClient,
    in_front_of_one,
    messages_of,
    next_data,
    raw_client,
)
from tests.support.service import CONFIG_DIR, eventually
from tests.support.tables import named_row

OTHER = {**TENANT, "X-Tenant-Id": "tenant_2"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
JSON = {"Content-Type": "application/json"}

FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
NO_JSON = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "over 1e308": "1e400",
    "a lone surrogate": '"\\ud800"',
    "65 levels": "[" * 65 + "]" * 65,
}


def holding(body: Json, text: str) -> bytes:
    """Write a body with ``text`` in the place of the word HERE."""
    return json.dumps(body).replace('"HERE"', text).encode()


@pytest.mark.parametrize("era", ERAS)
async def test_invalid_json_values_reach_no_server(era: str) -> None:
    async with in_front_of_one(("echo",)) as (served, server):
        client = await raw_client(served, era)
        call = {"name": "s1:echo", "arguments": {"more": "HERE"}}
        body, headers = client.build("tools/call", call)
        for kind, text in NO_JSON.items():
            with named_row(kind):
                response = await served.http.post(
                    "/mcp", content=holding(body, text), headers={**JSON, **headers}
                )
                found = (response.status_code, answer(response)["error"]["code"])
                assert (*found, server.script.calls["echo"]) == (400, -32700, 0)


@pytest.mark.parametrize("era", ERAS)
async def test_bodies_refused_over_http_are_refused_over_mcp(era: str) -> None:
    async with in_front_of_one(("echo",)) as (served, server):
        client = await raw_client(served, era)
        body, headers = client.build(
            "tools/call", {"name": "s1:echo", "arguments": {"more": "HERE"}}
        )
        for more, field in (
            ('{"a": 1, "a": 2}', "params.arguments.more.a"),  # a key twice
            ("[" + "0," * 300_000 + "0]", "body"),  # too many values
        ):
            with named_row(field):
                response = await served.http.post(
                    "/mcp", content=holding(body, more), headers={**JSON, **headers}
                )
                data = answer(response)["error"]["data"]
                assert (response.status_code, server.script.calls["echo"]) == (400, 0)
                assert (data["code"], data["details"]["field"]) == ("INVALID_REQUEST", field)


async def test_bodies_refused_over_http_are_refused_to_a_stream_too(served: Served) -> None:
    for body in [b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', b"[" + b"0," * 200_000]:
        with named_row(body):
            async with served.http.stream("GET", "/mcp/sse", headers=TENANT) as stream:
                address = await next_data(stream.aiter_lines())
                response = await served.http.post(address, content=body, headers={**TENANT, **JSON})
            assert (response.status_code, response.json()["error"]["data"]["code"]) == (
                400,
                "INVALID_REQUEST",
            )


async def test_an_invalid_message_is_refused_to_a_stream_too(served: Served) -> None:
    for body in [b'{"x": NaN}', b"[]", b'{"jsonrpc": "2.0", "id": 1}']:
        with named_row(body):
            async with served.http.stream("GET", "/mcp/sse", headers=TENANT) as stream:
                lines = stream.aiter_lines()
                address = await next_data(lines)
                response = await served.http.post(address, content=body, headers={**TENANT, **JSON})
            assert (response.status_code, "error" in response.json()) == (400, True)


async def test_a_stream_of_changes_is_recognised_with_every_spelling_of_its_method(
    served: Served,
) -> None:
    """An unrecognised one would survive the revocation of its token."""
    client = await raw_client(served, MODERN)
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": {"progressToken": 1}}
    body, headers = client.build("subscriptions/listen", wanted)
    content = json.dumps(body).replace("subscriptions/listen", "subscriptions\\/listen")
    async with served.http.stream(
        "POST", "/mcp", content=content, headers={**JSON, **headers}
    ) as response:
        first = await anext(messages_of(response))
        assert (first["method"], served.facade.streams) == (
            "notifications/subscriptions/acknowledged",
            1,
        )


async def test_a_client_that_does_not_read_answers_may_send_no_more_requests() -> None:
    async with in_front_of_one(("echo",)) as (served, _):
        async with served.http.stream("GET", "/mcp/sse", headers=TENANT) as stream:
            lines = stream.aiter_lines()  # read only up to the address
            address = await next_data(lines)
            session = RawMcpClient(served, LEGACY, "none", {})
            body, _ = session.build("initialize", INITIALIZE)
            await served.http.post(address, json=body, headers=TENANT)
            large = {"name": "s1:echo", "arguments": {"text": "x" * 200_000}}
            statuses = {202}
            for _ in range(1000):
                body, _ = session.build("tools/call", large)
                posted = await served.http.post(address, json=body, headers=TENANT)
                statuses.add(posted.status_code)
                if len(statuses) > 1:
                    break
        others = await raw_client(served, MODERN)
        answered = await others.call("echo")
    assert (statuses, "isError" in answered) == ({202, 503}, False)


async def test_repeated_initialized_notifications_subscribe_a_session_once(
    served: Served,
) -> None:
    client = await raw_client(served, LEGACY)
    _, headers = client.build("", {})
    async with served.http.stream("GET", "/mcp", headers=headers):
        for _ in range(5):
            await client.notify({"method": "notifications/initialized"})
        await client.request("ping")
        assert served.facade.subscribers == 1


async def test_parallel_subscriptions_to_one_resource_end_with_the_session() -> None:
    async with in_front_of_one(()) as (served, server):
        client = await raw_client(served, LEGACY)
        requests = [client.request("resources/subscribe", {"uri": "raw://text"}) for _ in range(10)]
        answers = await asyncio.gather(*requests)
        _, headers = client.build("", {})
        ended = await served.http.delete("/mcp", headers=headers)

        async def is_left() -> bool:
            return server.script.updates.watches("raw://text") == 0

        await eventually(is_left)
    assert ([answer["result"] for answer in answers], ended.status_code) == ([{}] * 10, 204)


async def test_parallel_subscriptions_are_limited_like_sequential_ones() -> None:
    async with in_front_of_one(()) as (served, _):
        client = await raw_client(served, LEGACY)
        uris = [f"raw://item/{number}" for number in range(MAX_RESOURCES + 20)]
        answers = await asyncio.gather(
            *(client.request("resources/subscribe", {"uri": uri}) for uri in uris)
        )
    assert sum("result" in answer for answer in answers) == MAX_RESOURCES


async def test_a_tenant_with_unanswered_requests_leaves_capacity_to_others() -> None:
    async with in_front_of_one(("request_client", "echo"), era="legacy", sse=True) as (served, _):
        client = await raw_client(served, MODERN, elicitation={})
        calls = [client.call("request_client", FORM) for _ in range(DEFAULT_CALLS_IN_FLIGHT)]
        waiting = sum("requestState" in result for result in await asyncio.gather(*calls))
        other = await served.request("tools/call", {"name": "s1:echo"}, headers=OTHER)
    assert (0 < waiting < DEFAULT_CALLS_IN_FLIGHT, "isError" in answer(other)["result"]) == (
        True,
        False,
    )


async def test_the_tenant_with_the_most_sessions_loses_one_of_its_own() -> None:
    async with serving(max_sessions=3) as served:
        session_id = await served.open_session()
        await served.set_log_level(session_id)
        for _ in range(4):
            await served.set_log_level(await served.open_session(headers=OTHER), headers=OTHER)
        assert await pinged(served, session_id) == 200


async def test_a_session_without_settings_ends_no_other_session() -> None:
    async with serving(max_sessions=1) as served:
        session_id = await served.open_session()
        await served.set_log_level(session_id)
        for _ in range(4):
            await served.open_session(headers=OTHER)
        assert await pinged(served, session_id) == 200


async def test_an_agent_in_the_path_is_an_identifier(served: Served) -> None:
    for agent in ["%00", "a%0ab", "x" * 257]:
        with named_row(agent):
            response = await served.http.post(f"/mcp/agents/{agent}", json=PING, headers=TENANT)
            assert response.json()["error"]["data"]["code"] == "INVALID_REQUEST"


async def pinged(served: Served, session_id: str) -> int:
    headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
    return (await served.http.post("/mcp", json=PING, headers=headers)).status_code


async def test_endless_updates_of_a_server_do_not_end_its_listeners() -> None:
    """The client receives some of the hundred updates, the last one, and then the next change."""
    updated = {"method": "notifications/resources/updated", "params": {"uri": "raw://text"}}
    async with in_front_of_one(("notify",), era="legacy", sse=True) as (served, _):
        client = await raw_client(served, MODERN)
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["raw://text"]}
        async with client.stream("subscriptions/listen", {"notifications": wanted}) as stream:
            assert (await anext(stream))["method"].endswith("acknowledged")
            await client.call("notify", {"messages": [updated], "times": 1000})
            received = [(await anext(stream))["method"]]
            write_json(CONFIG_DIR / "preset_work.json", make_preset())
            while received[-1] == updated["method"]:
                received.append((await anext(stream))["method"])
    assert received[-1] == "notifications/tools/list_changed"
