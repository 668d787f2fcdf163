import json
from functools import cache
from typing import Any

import pytest
from mcp.types import JSONRPCResponse

from mcp_tools_proxy.downstream.connection import ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.downstream.mcp_client.messages import MIN_STRUCTURE_BYTES as LIMIT
from mcp_tools_proxy.downstream.mcp_client.messages import read_object, to_session_message
from tests.support.loop_turns import in_short_turns
from tests.support.tables import each_row


@cache
def many_keys() -> bytes:
    return b",".join(b'"k%d":0' % number for number in range(600_000))


@each_row(
    ("data", "value"),
    [
        (b"NaN", None),
        (b"[1, -Infinity]", [1, None]),
        (rb'"a\ud800b"', "a\ufffdb"),
        (rb'"\udc00\ud83d\ude00\\ud800"', "\ufffd\U0001f600\\ud800"),
        (b'"a\xed\xa0\x80"', "a\ufffd\ufffd\ufffd"),
        (b"1" * 400, None),
    ],
)
async def test_a_value_outside_json_does_not_affect_other_values(
    data: bytes, value: object
) -> None:
    assert await read_object(b'{"a": %b, "b": 1}' % data, LIMIT) == {"a": value, "b": 1}


async def test_a_number_beyond_the_float_range_is_read_as_null() -> None:
    assert await read_object(b'{"a": [1e400, -1e999, 1e5]}', LIMIT) == {"a": [None, None, 1e5]}


async def test_a_null_error_next_to_a_result_is_ignored() -> None:
    data = b'{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}, "error": null}'
    found = await to_session_message(data, LIMIT)
    assert found is not None
    assert isinstance(found.message, JSONRPCResponse)
    assert found.message.result == {"a": 1}


@each_row("data", [b"[NaN]", b"[1e400]", b"1e400"])
async def test_a_message_that_is_not_a_json_object_is_an_error(data: bytes) -> None:
    with pytest.raises(ConnectionFailure):
        await read_object(data, LIMIT)


def large_list() -> dict[str, Any]:
    properties = {f"p{n}": {"type": "string", "description": '"a", {b}: [c]\\'} for n in range(9)}
    schema = {"type": "object", "properties": properties, "required": [], "default": {}}
    tools: list[Any] = [
        {"name": f"t{n}", "title": "é ☃", "inputSchema": schema} for n in range(6_000)
    ]
    tools += [[], {}, None, 7, "text", [[1], {"a": 2}]]
    return {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools, "_meta": {"a": {"b": 1}}}}


async def test_a_large_list_is_read_in_pieces() -> None:
    listed = large_list()
    data = json.dumps(listed).encode()
    assert await in_short_turns(lambda: read_object(data, LIMIT)) == listed


@each_row(
    "text", ["a,:" * 400_000, "\\" * 400_000 + "a,:" * 100_000, '"' * 300_000 + "," * 200_000]
)
async def test_a_long_text_counts_as_one_value(text: str) -> None:
    answer = {"id": 1, "result": {"content": [{"type": "text", "text": text}], "b": [{}]}}
    data = json.dumps(answer).encode()
    assert await in_short_turns(lambda: read_object(data, LIMIT)) == answer


@each_row(
    "result",
    [
        b"{KEYS}",
        b'{"structuredContent":{"a":{KEYS}}}',
        b'{"tools":[%b0]}' % (b"{}," * 300_000),
    ],
)
async def test_an_answer_of_too_many_values_is_refused(result: bytes) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":%b}' % result.replace(b"KEYS", many_keys())

    async def read() -> None:
        with pytest.raises(ResponseTooLarge):
            await read_object(data, LIMIT)

    await in_short_turns(read)


@each_row(
    "result", [b'{"tools":[{%b', b'{"tools":[{"a":"%b', b'{"tools":[%b]}}}{', b'{"a":[{}],%b}]']
)
async def test_a_large_answer_that_is_not_json_is_an_error(result: bytes) -> None:
    pairs = b",".join([b'"a":[{"b":1}]'] * 10_000)
    with pytest.raises((ConnectionFailure, ResponseTooLarge)):
        await read_object(
            b'{"jsonrpc":"2.0","id":1,"result":' + result.replace(b"%b", pairs), LIMIT
        )
