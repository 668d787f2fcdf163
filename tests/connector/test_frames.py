import json
from typing import Any

import pytest

from tests.connector.backend_link import ERAS, GATEWAY, begun, linked, linked_to_one
from tests.connector.link_checks import opened
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.backend import Backend
from tests.support.seed_002 import CALL, LIST_REPLY

SEARCH = {"name": "search", "inputSchema": LIST_REPLY["result"]["tools"][0]["input_schema"]}
"""The tool that seed 002's sample calls."""

NO_FRAMES = {
    "no JSON": "{",
    "no object": "[]",
    "a text": '"tools/list"',
    "no message": '{"session_identifier": "known"}',
    "no session": '{"message": {"jsonrpc": "2.0", "id": 9, "method": "ping"}}',
    "a session that is a number": '{"session_identifier": 7, "message": {}}',
    "a session without a name": '{"session_identifier": "", "message": {}}',
    "a key twice": '{"session_identifier": "x", "session_identifier": "known", "message": {}}',
    "a number that is invalid in JSON": '{"session_identifier": "known", "message": NaN}',
    "a message that is a number": '{"session_identifier": "known", "message": 5}',
    "an invalid message": '{"session_identifier": "known", "message": null}',
    "an empty message": '{"session_identifier": "known", "message": {}}',
    "messages in a list": '{"session_identifier": "known", "message": [{"jsonrpc": "2.0"}]}',
    "binary": b'{"session_identifier": "known", "message": {}}',
}
no_frames = pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES.keys())


async def send(backend: Backend, data: str | bytes) -> None:
    link = backend.link()
    await (link.send_raw(data) if isinstance(data, str) else link.send_binary(data))


@pytest.mark.requirement("W-01")
async def test_it_dials_with_its_identifier_a_bearer_token_and_the_subprotocol_mcp() -> None:
    async with linked(backend_options={"token": "jwt"}, remote_token="jwt") as (_, backend):
        handshake = backend.link().handshake
    assert handshake.path == f"/ws/{GATEWAY}"
    assert handshake.authorization == "Bearer jwt"
    assert handshake.subprotocols == ("mcp",)


@pytest.mark.requirement("W-02")
async def test_a_message_is_answered_in_its_session() -> None:
    async with linked() as (_, backend):
        session = backend.session("any text: ü 1")
        assert (await session.result("tools/list"))["tools"]


@pytest.mark.requirement("W-03")
async def test_a_reply_has_an_envelope_of_exactly_three_keys() -> None:
    async with linked() as (_, backend):
        session = backend.session()
        answer = await session.request("tools/list")
        (frame,) = backend.frames
    assert json.loads(frame) == {
        "session_identifier": session.identifier,
        "target_server_identifier": GATEWAY,
        "message": answer,
    }


@pytest.mark.requirement("W-03")
async def test_every_sent_frame_has_the_three_keys() -> None:
    async with linked_to_one("progress") as (_, backend, server):
        session = await opened(backend)
        await session.call("s1:progress", _meta={"progressToken": 1})
        await session.request("no/such")
        server.script.swap("whoami")
        while (await session.receive())["method"] != "notifications/tools/list_changed":
            pass
        frames = [json.loads(frame) for frame in backend.frames]
    assert {tuple(sorted(frame)) for frame in frames} == {
        ("message", "session_identifier", "target_server_identifier")
    }


@pytest.mark.requirement("W-02", "W-12")
async def test_the_call_of_seed_002_is_answered_as_specified() -> None:
    async with linked_to_one("search", raw={"extra": {"tools": [SEARCH]}}) as (_, backend, _):
        session = await opened(backend)
        await session.send(CALL)
        answer = await session.receive()
    assert (answer["id"], answer["result"]["structuredContent"]) == (
        "42",
        {"server": "raw", "tool": "search", "arguments": {"query": "kotlin", "top_k": 5}},
    )


@pytest.mark.requirement("W-12")
async def test_the_meta_of_seed_002_reaches_the_server_as_mcp_meta() -> None:
    async with linked_to_one("meta") as (_, backend, _):
        session = await opened(backend)
        await session.send({**CALL, "params": {**CALL["params"], "name": "s1:meta"}})
        answer = await session.receive()
    assert answer["result"]["structuredContent"]["trace_id"] == "abc123"


@pytest.mark.requirement("W-12")
async def test_mcp_meta_overrides_that_of_seed_002() -> None:
    async with linked_to_one("meta") as (_, backend, _):
        session = await opened(backend)
        both: dict[str, Any] = {"_meta": {"x": 1}, "meta": {"x": 2, "y": 2}}
        result = await session.call("s1:meta", **both)
    seen = result["structuredContent"]
    assert (seen["x"], seen["y"]) == (1, 2)


async def test_the_list_reply_of_seed_002_sent_by_the_backend_is_harmless() -> None:
    async with linked() as (_, backend):
        session = await opened(backend)
        await session.send(LIST_REPLY)
        assert (await session.result("tools/list"))["tools"]
        assert len(backend.links) == 1


@pytest.mark.requirement("W-05")
@no_frames
async def test_an_invalid_frame_affects_neither_the_socket_nor_its_sessions(
    data: str | bytes,
) -> None:
    async with linked() as (_, backend):
        session = await opened(backend)
        await send(backend, data)
        assert (await session.result("tools/list"))["tools"]
        assert (len(backend.links), len(backend.strays)) == (1, 0)


@pytest.mark.requirement("W-05")
@no_frames
async def test_an_invalid_frame_is_logged_once_without_its_content(data: str | bytes) -> None:
    async with linked() as (_, backend):
        session = await opened(backend)
        with capture_logs() as lines:
            await send(backend, data)
            await session.result("ping")
    (line,) = [line for line in lines if line["event"] == "remote.frame_ignored"]
    of_caller = {"tenant_id", "user_id", "entry", "peer"}
    assert set(line) == {"event", "log_level", "trace_id", "code", "check", "reason", *of_caller}
    assert (line["log_level"], line["code"], line["entry"]) == (
        "warning",
        "INVALID_REQUEST",
        "connector",
    )
    assert "known" not in line["reason"]


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    "message",
    [
        {"id": 9, "method": "tools/list"},
        {"jsonrpc": "1.0", "id": 9, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": [1]},
        {"jsonrpc": "2.0", "id": 9, "method": 5},
    ],
    ids=json.dumps,
)
async def test_a_request_that_is_not_json_rpc_is_answered_with_an_error(
    message: dict[str, Any],
) -> None:
    async with linked() as (_, backend):
        session = await opened(backend)
        await session.send(message)
        answer = await session.receive()
    assert (answer["id"], answer["error"]["code"]) == (9, -32600)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.requirement("W-12")
@pytest.mark.parametrize("spelt", ["_meta", "meta"])
async def test_the_callers_meta_reaches_the_server(era: str, spelt: str) -> None:
    own = {"com.example/a": {"b": [1]}, "trace_id": "abc123"}
    async with linked_to_one("meta") as (_, backend, _):
        session = await begun(backend, era)
        seen = (await session.call("s1:meta", **{spelt: own}))["structuredContent"]
    assert {key: seen.get(key) for key in own} == own
