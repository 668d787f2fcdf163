"""Requests of up to 1 MiB on routes other than execute delay no other call."""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import pytest

from tests.api.hostile_requests import (
    BODIES,
    COSTLY,
    MEBIBYTE,
    SHORT_CHECKS,
    message_of,
    parts_of,
    serving,
)
from tests.support.loop_turns import in_short_turns
from tests.support.mcp_endpoint import BOTH, ENVELOPE, INITIALIZE, MODERN, TENANT
from tests.support.service import BATCH, Service

USER = b'{"user_id":"user_1","tenant_id":"tenant_1"}'
JSON = {"Content-Type": "application/json"}

Send = Callable[[Service, str, bytes], Awaitable[bytes]]
"""Calls a tool with JSON arguments and returns the answer."""


async def in_a_batch(service: Service, tool: str, arguments: bytes) -> bytes:
    call = b'{"call_id":"1","tool_name":"%b","arguments":%b}' % (tool.encode(), arguments)
    return await _post_calls(service, call)


async def in_a_model_reply(service: Service, tool: str, arguments: bytes) -> bytes:
    text = json.dumps(arguments.decode(errors="replace"), ensure_ascii=False).encode()
    function = b'{"name":"%b","arguments":%b}' % (tool.encode(), text)
    return await _post_calls(service, b'{"id":"1","type":"function","function":%b}' % function)


async def over_mcp(service: Service, tool: str, arguments: bytes) -> bytes:
    mirrored = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool[:999]}
    content = message_of(tool, arguments, json.dumps(ENVELOPE).encode())
    headers = {**BOTH, **TENANT, **JSON, **mirrored}
    return (await service.http.post("/mcp", content=content, headers=headers)).content


async def in_a_session(service: Service, tool: str, arguments: bytes) -> bytes:
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    headers = {**BOTH, **TENANT, **JSON}
    begun = await service.http.post("/mcp", json=body, headers=headers)
    headers |= {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
    content = message_of(tool, arguments, b"{}")
    return (await service.http.post("/mcp", content=content, headers=headers)).content


async def _post_calls(service: Service, call: bytes) -> bytes:
    content = b'{"user":%b,"calls":[%b]}' % (USER, call)
    return (await service.http.post(BATCH, content=content, headers=JSON)).content


WAYS: Mapping[str, Send] = {
    "batch": in_a_batch,
    "model-reply": in_a_model_reply,
    "mcp-2026-07-28": over_mcp,
    "mcp-2025-11-25": in_a_session,
}


@pytest.mark.parametrize("send", WAYS.values(), ids=WAYS.keys())
async def test_a_request_does_not_block_the_event_loop(send: Send) -> None:
    long: dict[str, str] = {}
    async with serving({"type": "object"}) as service:
        for name in ("numbers", "escapes", "keys", "most-keys"):
            tool, arguments = parts_of(BODIES[name])
            assert len(arguments) < MEBIBYTE
            try:
                assert await in_short_turns(partial(send, service, tool, arguments)), name
            except AssertionError as error:
                long[name] = str(error)
    assert long == {}


@pytest.mark.parametrize("send", WAYS.values(), ids=WAYS.keys())
async def test_validating_arguments_does_not_block_the_event_loop(send: Send) -> None:
    schema, arguments = COSTLY["look-ahead"]
    sent = json.dumps(arguments).encode()
    async with serving(schema, worker=SHORT_CHECKS) as service:
        answer = await in_short_turns(partial(send, service, "raw:checked", sent))
    assert b"INVALID_ARGUMENTS" in answer
