import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.examples import at_most
from tests.support.mcp_endpoint import (
    BOTH,
    ENVELOPE,
    LEGACY,
    MODERN,
    TENANT,
    Served,
    answer,
    serving,
)
from tests.support.raw_mcp_client import ERAS, in_front_of_one, raw_client
from tests.support.tables import named_row

eras = pytest.mark.parametrize("era", ERAS)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH = -32020
"""JSON-RPC's codes, and those of MCP 2026-07-28 for headers that differ from the body."""

INNER = (
    "Traceback",
    "site-packages",
    "mcp_tools_proxy.",
    'File "',
    "Error(",
    "pydantic",
    "input_value",
)
"""Texts for programmers only."""

SESSION = {**BOTH, **TENANT}
MODERN_CALL = {**SESSION, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}


async def post(served: Served, content: bytes, headers: dict[str, str]) -> httpx.Response:
    """POST a body, and check the properties of every answer."""
    headers = {"Content-Type": "application/json", **headers}
    async with asyncio.timeout(BOUND_S):
        response = await served.http.post("/mcp", content=content, headers=headers)
    assert response.status_code < 500, response.text
    assert [word for word in INNER if word in response.text] == []
    return response


async def headers_of(served: Served, era: str) -> dict[str, str]:
    """Return the headers of a tools/call in an era, for the older ones in a new session."""
    if era == MODERN:
        return MODERN_CALL
    return {**SESSION, "Mcp-Session-Id": await served.open_session()}


def call(**params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


NOT_JSON: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"jsonrpc": "2.0", "id": 1, "meth',
    "text": b"hello",
    "bytes": b"\xff\xfe\x00\x01",
    "infinity": b"1e999",
    "deep": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":'
    + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}}",
    "very deep": b"[" * 100_000,
    "lone surrogate": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":NaN}}',
    "long number": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":'
    + b"9" * 9999
    + b"}}",
}  # fmt: skip
NO_MESSAGE: dict[str, bytes] = {
    "null": b"null",
    "empty batch": b"[]",
    "batch": json.dumps([call(name="read_doc_metadata"), call(name="x")]).encode(),
    "no version": b'{"id": 1, "method": "tools/list"}',
    "old version": b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
    "no method": b'{"jsonrpc": "2.0", "id": 1}',
    "method is a number": b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
    "params are a list": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}',
    "params are text": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": "x"}',
    "id is null": b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    "id is a list": b'{"jsonrpc": "2.0", "id": [1], "method": "tools/list"}',
    "id is a fraction": b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}',
    "twice the method": b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
}


@eras
async def test_an_invalid_request_body_is_refused_with_its_code(served: Served, era: str) -> None:
    """As in JSON-RPC 2.0 §5.1, in both eras; without an id, because none is certain."""
    headers = await headers_of(served, era)
    codes = dict.fromkeys(NOT_JSON, PARSE_ERROR) | dict.fromkeys(NO_MESSAGE, INVALID_REQUEST)
    for name, body in {**NOT_JSON, **NO_MESSAGE}.items():
        with named_row(name):
            response = await post(served, body, headers)
            refusal = response.json()
            error = (response.status_code, refusal["error"]["code"], refusal["id"])
            assert error == (400, codes[name], None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("old version", 'jsonrpc should be "2.0"'),
        ("params are a list", "params should be an object"),
        ("id is null", "the id of a request should be a string or an integer"),
    ],
)
async def test_a_refused_message_of_a_session_names_the_invalid_field(
    served: Served, name: str, words: str
) -> None:
    response = await post(served, NO_MESSAGE[name], await headers_of(served, LEGACY))
    assert response.json()["error"]["message"] == words


WRONG: dict[str, tuple[str, Json]] = {
    "no name": ("tools/call", {}),
    "name is a number": ("tools/call", {"name": 5}),
    "name is null": ("prompts/get", {"name": None}),
    "uri is a list": ("resources/read", {"uri": []}),
    "arguments are a list": ("tools/call", {"name": "read_doc_metadata", "arguments": []}),
    "arguments are text": ("prompts/get", {"name": "x", "arguments": "y"}),
    "cursor is unknown": ("tools/list", {"cursor": "nope"}),
    "cursor is a number": ("prompts/list", {"cursor": 5}),
    "reference is text": ("completion/complete", {"ref": "x", "argument": {}}),
    "argument is text": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "x"}, "argument": "y"},
    ),
}

UNMIRRORED = frozenset({"name is a number", "uri is a list"})
"""Values that no header can repeat: the newer era compares headers and body first."""


@eras
async def test_parameters_of_a_wrong_type_are_invalid_params(served: Served, era: str) -> None:
    for wrong in WRONG:
        with named_row(wrong):
            method, params = WRONG[wrong]
            headers = await headers_of(served, era)
            if era == MODERN:
                params = {**params, "_meta": ENVELOPE}
                headers = {**headers, "Mcp-Method": method}
                if isinstance(name := params.get("name"), str):
                    headers["Mcp-Name"] = name
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            response = await post(served, json.dumps(body).encode(), headers)
            code = HEADER_MISMATCH if era == MODERN and wrong in UNMIRRORED else INVALID_PARAMS
            status = 400 if era == MODERN else 200
            assert (response.status_code, answer(response)["error"]["code"]) == (status, code)


@eras
async def test_a_meta_that_is_not_an_object_is_invalid_params(served: Served, era: str) -> None:
    cases: list[object] = ["x", 5, []]
    for meta in cases:
        with named_row(meta):
            body = json.dumps(call(name="list_available_tools", _meta=meta)).encode()
            headers = {**await headers_of(served, era), "Mcp-Name": "list_available_tools"}
            response = await post(served, body, headers)
            assert answer(response)["error"]["code"] == INVALID_PARAMS


@eras
async def test_a_progress_token_of_a_wrong_type_is_ignored(served: Served, era: str) -> None:
    cases: list[object] = [{}, [1]]
    for token in cases:
        with named_row(token):
            meta = {**(ENVELOPE if era == MODERN else {}), "progressToken": token}
            body = json.dumps(call(name="list_available_tools", _meta=meta)).encode()
            headers = {**await headers_of(served, era), "Mcp-Name": "list_available_tools"}
            assert "result" in answer(await post(served, body, headers))


@eras
async def test_every_id_is_returned_unchanged(served: Served, era: str) -> None:
    cases: list[object] = [0, -1, 2**63, "é" * 10_000, ""]
    for id_ in cases:
        with named_row(id_):
            body = {**call(name="list_available_tools", _meta=ENVELOPE), "id": id_}
            headers = {**await headers_of(served, era), "Mcp-Name": "list_available_tools"}
            response = await post(served, json.dumps(body).encode(), headers)
            assert (answer(response)["id"], "result" in answer(response)) == (id_, True)


async def test_an_id_of_an_open_request_is_refused_for_another_request() -> None:
    async with in_front_of_one(("sleep",)) as (served, server):
        client = await raw_client(served, LEGACY)
        body, headers = client.build(
            "tools/call", {"name": "s1:sleep", "arguments": {"seconds": 0.3}}
        )
        content = json.dumps(body).encode()
        async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(post(served, content, headers)) for _ in range(2)]
        statuses = sorted(task.result().status_code for task in both)
        again = await post(served, content, headers)
    assert (statuses, server.script.calls["sleep"], again.status_code) == ([200, 400], 2, 200)


async def test_many_sessions_can_start_in_parallel_with_the_same_id(served: Served) -> None:
    async with asyncio.timeout(BOUND_S):
        ids = await asyncio.gather(*(served.open_session() for _ in range(5)))
    assert len(set(ids)) == 5


async def test_an_unsupported_version_is_answered_with_the_supported_ones(served: Served) -> None:
    version = "io.modelcontextprotocol/protocolVersion"
    body = call(name="x", _meta={**ENVELOPE, version: "2099-01-01"})
    headers = {**MODERN_CALL, "MCP-Protocol-Version": "2099-01-01", "Mcp-Name": "x"}
    response = await post(served, json.dumps(body).encode(), headers)
    error = answer(response)["error"]
    assert (response.status_code, error["code"], MODERN in error["data"]["supported"]) == (
        400,
        -32022,
        True,
    )


async def test_a_header_that_differs_from_the_body_is_refused(served: Served) -> None:
    cases: list[dict[str, str]] = [
        {"Mcp-Name": "other"},
        {"Mcp-Name": ""},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Name": "=?base64?!!!?="},
    ]
    for header in cases:
        with named_row(header):
            body = call(name="list_available_tools", _meta=ENVELOPE)
            headers = {**MODERN_CALL, "Mcp-Name": "list_available_tools", **header}
            response = await post(served, json.dumps(body).encode(), headers)
            assert (response.status_code, answer(response)["error"]["code"]) == (
                400,
                HEADER_MISMATCH,
            )


async def test_a_request_before_initialize_is_refused(served: Served) -> None:
    for method in ["tools/list", "tools/call", "logging/setLevel", "nonsense"]:
        with named_row(method):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "x"}}
            response = await post(served, json.dumps(body).encode(), SESSION)
            assert (response.status_code, answer(response)["error"]["code"]) == (
                400,
                INVALID_REQUEST,
            )


@eras
async def test_an_unknown_method_is_method_not_found(served: Served, era: str) -> None:
    headers = {**await headers_of(served, era)} | (
        {"Mcp-Method": "no/such"} if era == MODERN else {}
    )
    body = {"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {"_meta": ENVELOPE}}
    response = await post(served, json.dumps(body).encode(), headers)
    status = 404 if era == MODERN else 200
    code = answer(response)["error"]["code"]
    assert (response.status_code, code) == (status, METHOD_NOT_FOUND)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
METHODS = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "prompts/get", "resources/read",
     "resources/subscribe", "completion/complete", "logging/setLevel", "server/discover",
     "notifications/cancelled", "notifications/initialized", "notifications/progress"]
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | ANY_JSON},
    optional={
        "id": st.integers() | st.text(max_size=5) | ANY_JSON,
        "method": METHODS | ANY_JSON,
        "params": ANY_JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.just("read_doc_metadata") | ANY_JSON,
                "arguments": ANY_JSON,
                "uri": ANY_JSON,
                "ref": ANY_JSON,
                "argument": ANY_JSON,
                "requestId": ANY_JSON,
                "inputResponses": ANY_JSON,
                "requestState": ANY_JSON,
                "_meta": st.just(ENVELOPE) | ANY_JSON,
            },
        ),
        "result": ANY_JSON,
        "error": ANY_JSON,
    },
)


@eras
async def test_every_message_is_answered_in_time_and_without_internal_text(era: str) -> None:
    async with serving() as served:
        headers = await headers_of(served, era)
        loop = asyncio.get_running_loop()

        @at_most(150, settings(database=None, suppress_health_check=list(HealthCheck)))
        @given(message=MESSAGES, mirrored=st.booleans())
        def every_message(message: Json, *, mirrored: bool) -> None:
            named = dict(headers)
            method = message.get("method")
            if mirrored and isinstance(method, str) and method.isprintable() and method.isascii():
                named["Mcp-Method"] = method
            content = json.dumps(message).encode()
            asyncio.run_coroutine_threadsafe(post(served, content, named), loop).result(BOUND_S)

        await asyncio.to_thread(every_message)
