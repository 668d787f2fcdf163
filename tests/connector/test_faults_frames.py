"""Frames by a hostile backend: each costs a line of the log, or the link, and no session."""

import json
import struct
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.connector.backend_link import begun
from tests.connector.faults import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FINAL,
    KNOWN,
    PING,
    PONG,
    TEXT,
    close_frame,
    enveloped,
    frame,
    opened,
    recovered,
    request,
    unharmed,
    until_state,
)
from tests.support.remote_backend.session import ENVELOPE
from tests.support.service import REMOTE

CALL = request("tools/list")
NOT_FINAL = 0
RESERVED = 0x40
HOLE = '{"session_identifier": "known", "message": %s}'

NO_FRAMES: dict[str, bytes | str] = {
    "nothing": b"",
    "spaces": " " * 1000,
    "no UTF-8": b'{"session_identifier": "known", "message": {"method": "\xff"}}',
    "half a letter": '{"session_identifier": "known", "message": "ü"}'.encode()[:-3],
    "a byte order mark": b"\xef\xbb\xbf" + enveloped(CALL).encode(),
    "UTF-16": enveloped(CALL).encode("utf-16"),
    "null": "null",
    "a number": "7",
    "infinity": HOLE % "-Infinity",
    "a number over 1e308": HOLE % "1e400",
    "a whole number of 5,000 digits": HOLE % ("9" * 5000),
    "a lone surrogate": HOLE % r'"\ud800"',
    "10,000 levels": HOLE % ("[" * 10_000 + "]" * 10_000),
    "10,000 levels of objects": HOLE % ('{"a":' * 10_000 + "1" + "}" * 10_000),
    "more after its end": enveloped(CALL) + enveloped(CALL),
    "a comment": enveloped(CALL) + "// no",
    "a control character in a text": HOLE % '"\x00"',
    "an envelope in a list": f"[{enveloped(CALL)}]",
    "keys of another spelling": '{"sessionIdentifier": "known", "message": {}}',
}
NO_NAMES: dict[str, object] = {
    "257 characters": "x" * 257,
    "a line's end": "known\n",
    "a null character": "\0",
    "an escape": "\x1b[2J",
    "a control character of Latin-1": "\x85",
    "null": None,
    "true": True,
    "a float": 1.5,
    "a list": ["known"],
    "an object": {"known": "known"},
}
NO_MESSAGES: dict[str, object] = {
    "false": False,
    "a text": "tools/list",
    "a batch": [CALL, request("tools/list", 2)],
    "a request without a method": {"jsonrpc": "2.0", "id": 1, "params": {}},
    "of another version": {"jsonrpc": "1.0", "method": "notifications/x"},
    "a notification whose params are a list": {**CALL, "id": None, "params": [1]},
    "an answer with neither result nor error": {"jsonrpc": "2.0", "id": 1},
    "an error that is a text": {"jsonrpc": "2.0", "id": 1, "error": "no"},
    "a method that is null": {"jsonrpc": "2.0", "method": None},
}
NO_IDS = {
    "null": None,
    "a bool": True,
    "a float": 1.5,
    "a whole float": 1.0,
    "a list": [1],
    "an object": {"id": 1},
}
ODD_REQUESTS = {
    "an id of no characters": request("ping", ""),
    "an id below zero": request("ping", -(2**70)),
    "an id of 300 digits": request("ping", 10**299),
    "an id of 100,000 characters": request("ping", "ü" * 100_000),
    "an id with a lone quote and a null character": request("ping", '"\0'),
    "params that are null": {**request("ping"), "params": None},
    "keys that nobody knows": {**request("ping"), "extra": [1], "result": {}},
}
PROTOCOL_ERROR, NO_TEXT, TOO_BIG = 1002, 1007, 1009
BROKEN = {
    "a ping of 126 bytes": (frame(PING, b"x" * 126), PROTOCOL_ERROR),
    "a ping in fragments": (frame(PING, b"x", flags=NOT_FINAL), PROTOCOL_ERROR),
    "a reserved bit": (frame(TEXT, b"{}", flags=FINAL | RESERVED), PROTOCOL_ERROR),
    "an opcode of data that nobody knows": (frame(3), PROTOCOL_ERROR),
    "an opcode of control that nobody knows": (frame(11), PROTOCOL_ERROR),
    "the end of nothing": (frame(CONTINUATION, b"x"), PROTOCOL_ERROR),
    "two beginnings": (frame(TEXT, b"{", flags=NOT_FINAL) + frame(TEXT, b"}"), PROTOCOL_ERROR),
    "half a close code": (frame(CLOSE, b"x"), PROTOCOL_ERROR),
    "a close code that is never sent": (close_frame(1005), PROTOCOL_ERROR),
    "a close code of nobody": (close_frame(999), PROTOCOL_ERROR),
    "a reason that is no UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), NO_TEXT),
    "a length of 2**62": (struct.pack("!BBQ", FINAL | TEXT, 127, 2**62), TOO_BIG),
    "a length of 2**63": (struct.pack("!BBQ", FINAL | TEXT, 127, 2**63), TOO_BIG),
}
WHOLE = enveloped(request("ping", "odd")).encode()
ODD_FRAMES = {
    "a ping of 125 bytes": frame(PING, b"\xff" * 125),
    "a pong that nobody asked for": frame(PONG, b"?"),
    "fragments with a ping between": frame(TEXT, WHOLE[:9], flags=NOT_FINAL)
    + frame(PING)
    + frame(CONTINUATION, WHOLE[9:]),
    "a fragment for each byte": frame(TEXT, b"", flags=NOT_FINAL)
    + b"".join(frame(CONTINUATION, bytes([byte]), flags=NOT_FINAL) for byte in WHOLE)
    + frame(CONTINUATION),
    "binary in fragments": frame(BINARY, b"{", flags=NOT_FINAL) + frame(CONTINUATION, b"}"),
    "a thousand empty frames": frame(TEXT) * 1000,
}


def named(cases: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())


@pytest.mark.requirement("W-05")
@named(NO_FRAMES)
async def test_what_is_no_frame_costs_one_line_of_the_log(case: bytes | str) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        with capture_logs() as lines:
            backend.link().write(frame(TEXT, case))
            await session.result("ping")
        ignored = [line for line in lines if line["event"] == "remote.frame_ignored"]
        assert (len(ignored), len(backend.links), len(session.messages)) == (1, 1, 2)


@pytest.mark.requirement("W-05")
@named(NO_NAMES)
async def test_a_session_that_cannot_be_named_so_is_none(case: object) -> None:
    async with unharmed() as (service, backend, _):
        session = await opened(backend)
        text = json.dumps({"session_identifier": case, "message": request("initialize")})
        backend.link().write(frame(TEXT, text))
        await session.result("ping")
        assert ((await service.get(REMOTE))["sessions"], len(backend.strays)) == (1, 0)


@pytest.mark.parametrize("identifier", ["x" * 256, " ", "\u2028", "\U0001f600" * 256, "../..", '"'])
async def test_any_other_text_names_a_session(identifier: str) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend, identifier)
        assert (await session.result("tools/list"))["tools"]


@pytest.mark.requirement("W-05")
@named(NO_MESSAGES)
async def test_what_is_no_message_is_ignored(case: object) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        with capture_logs() as lines:
            await session.send(case)
            await session.result("ping")
        ignored = [line for line in lines if line["event"] == "remote.frame_ignored"]
        assert (len(ignored), len(backend.links), len(session.messages)) == (1, 1, 2)


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("meta", [{}, {"_meta": ENVELOPE}], ids=["older era", "newer era"])
@named(NO_IDS)
async def test_a_request_whose_id_no_answer_can_have_is_ignored(
    case: object, meta: dict[str, object]
) -> None:
    async with unharmed("echo") as (_, backend, server):
        session = await opened(backend)
        with capture_logs() as lines:
            await session.send(request("tools/call", case, name="s1:echo", arguments={}, **meta))
            await session.result("ping")
        ignored = [line for line in lines if line["event"] == "remote.frame_ignored"]
        assert (len(ignored), len(session.messages), server.script.calls["echo"]) == (1, 2, 0)


async def test_a_request_whose_id_no_answer_can_have_begins_no_session() -> None:
    async with unharmed() as (service, backend, _):
        session = await opened(backend)
        for number, id_ in enumerate(NO_IDS.values()):
            await backend.send(f"another {number}", request("initialize", id_))
        await session.result("ping")
        assert (await service.get(REMOTE))["sessions"] == 1


async def test_a_request_that_names_a_key_twice_is_answered_and_reaches_no_server() -> None:
    async with unharmed("echo") as (_, backend, server):
        session = await opened(backend)
        call = request("tools/call", 9, name="s1:echo", arguments={"a": 1})
        text = json.dumps({"session_identifier": KNOWN, "message": call})
        with capture_logs() as lines:
            backend.link().write(frame(TEXT, text.replace('"a": 1', '"a": 1, "a": 2')))
            answer = await session.receive()
        ignored = [line for line in lines if line["event"] == "remote.frame_ignored"]
        assert (answer["id"], answer["error"]["code"], len(ignored)) == (9, -32600, 1)
        assert answer["error"]["data"]["details"] == {"field": "message.params.arguments.a"}
        assert server.script.calls["echo"] == 0


async def test_a_frame_of_too_many_values_is_ignored() -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        with capture_logs() as lines:
            await session.send(request("ping", 9, more=[0] * 100_000))
            await session.result("ping")
        reasons = [line["reason"] for line in lines if line["event"] == "remote.frame_ignored"]
        assert reasons == ["holds more than 100000 JSON values, the limit"]


@named(ODD_REQUESTS)
async def test_an_odd_request_is_answered_under_its_own_id(case: dict[str, object]) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        await session.send(case)
        assert await session.receive() == {"jsonrpc": "2.0", "id": case["id"], "result": {}}


@named({name: case["id"] for name, case in ODD_REQUESTS.items()})
async def test_an_odd_id_of_the_newer_era_is_answered_as_it_is(case: object) -> None:
    async with unharmed() as (_, backend, _):
        session = await begun(backend)
        await session.send(request("tools/list", case, _meta=ENVELOPE))
        answer = await session.receive()
        assert (answer["id"], "result" in answer) == (case, True)


@pytest.mark.parametrize("method", ["", "x" * 100_000, "tools/list\0", "\u2028", "__class__"])
async def test_a_method_of_any_text_is_answered_with_an_error(method: str) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        await session.send(request(method, 9))
        answer = await session.receive()
        assert (answer["id"], answer["error"]["code"]) == (9, -32601)


async def test_keys_of_an_envelope_that_nobody_knows_are_left_alone() -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        extra = {"session_identifier": KNOWN, "message": request("ping", 9), "jsonrpc": [1]}
        backend.link().write(frame(TEXT, json.dumps(extra)))
        assert (await session.receive())["id"] == 9


@named(BROKEN)
async def test_what_breaks_websocket_costs_the_link_and_no_session(case: tuple[bytes, int]) -> None:
    data, code = case
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        link = backend.link()
        link.write(data)
        await recovered(backend)
        assert link.close_code == code
        assert (await session.result("tools/list"))["tools"]


async def test_who_broke_websocket_is_said() -> None:
    async with unharmed() as (service, backend, _):
        backend.link().write(frame(3))
        status = await until_state(service, "offline")
        assert status["last_error"] == "what the backend sent is no WebSocket, code 1002"


@named(ODD_FRAMES)
async def test_odd_frames_that_websocket_allows_cost_nothing(case: bytes) -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        backend.link().write(case)
        assert (await session.result("tools/list"))["tools"]
        assert len(backend.links) == 1


async def test_a_message_in_fragments_is_one_message() -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        backend.link().write(ODD_FRAMES["fragments with a ping between"])
        assert (await session.receive())["id"] == "odd"
