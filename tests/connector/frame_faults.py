"""Frames of a hostile backend: each costs at most one log line."""

import json

from tests.connector.fault import Fault, sends, sends_at_length, writes
from tests.connector.raw_frames import (
    BINARY,
    CONTINUATION,
    KNOWN,
    NOT_FINAL,
    PING,
    PONG,
    TEXT,
    enveloped,
    frame,
    request,
)
from tests.support.remote_backend.session import ENVELOPE

# Frames that cost one log line

CALL = request("tools/list")
HOLE = '{"session_identifier": "known", "message": %s}'
NOT_JSON, NO_OBJECT = "is not valid JSON", "is not an object"
NO_FRAMES: dict[str, tuple[bytes | str, str]] = {
    "nothing": (b"", NOT_JSON),
    "spaces": (" " * 1000, NOT_JSON),
    "no UTF-8": (b'{"session_identifier": "known", "message": {"method": "\xff"}}', NOT_JSON),
    "half a letter": ('{"session_identifier": "known", "message": "ü"}'.encode()[:-3], NOT_JSON),
    "a byte order mark": (b"\xef\xbb\xbf" + enveloped(CALL).encode(), NOT_JSON),
    "UTF-16": (enveloped(CALL).encode("utf-16"), NOT_JSON),
    "null": ("null", NO_OBJECT),
    "a number": ("7", NO_OBJECT),
    "infinity": (HOLE % "-Infinity", NOT_JSON),
    "a number over 1e308": (HOLE % "1e400", NOT_JSON),
    "a whole number of 5,000 digits": (HOLE % ("9" * 5000), NOT_JSON),
    "a lone surrogate": (HOLE % r'"\ud800"', NOT_JSON),
    "10,000 levels": (HOLE % ("[" * 10_000 + "]" * 10_000), NOT_JSON),
    "10,000 levels of objects": (HOLE % ('{"a":' * 10_000 + "1" + "}" * 10_000), NOT_JSON),
    "more after its end": (enveloped(CALL) + enveloped(CALL), NOT_JSON),
    "a comment": (enveloped(CALL) + "// no", NOT_JSON),
    "a control character in a text": (HOLE % '"\x00"', NOT_JSON),
    "an envelope in a list": (f"[{enveloped(CALL)}]", NO_OBJECT),
    "keys of another spelling": ('{"sessionIdentifier": "known", "message": {}}', "has no session"),
}
NO_IDENTIFIERS: dict[str, object] = {
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
    "an error that is a text": {"jsonrpc": "2.0", "id": None, "error": "no"},
    "a method that is null": {"jsonrpc": "2.0", "method": None},
}
NO_IDS: dict[str, object] = {
    "null": None,
    "a bool": True,
    "a float": 1.5,
    "a whole float": 1.0,
    "a list": [1],
    "an object": {"id": 1},
}
ERAS: dict[str, dict[str, object]] = {"older": {}, "newer": {"_meta": ENVELOPE}}


def call_echo(id_: object, **meta: object) -> dict[str, object]:
    """Build a call that would reach a server."""
    return request("tools/call", id_, name="s1:echo", arguments={}, **meta)


IGNORED = [
    *(
        Fault(id=f"no frame: {name}", commit=sends(text), ignored=(why,))
        for name, (text, why) in NO_FRAMES.items()
    ),
    *(
        Fault(
            id=f"no identifier: {name}",
            commit=sends(json.dumps({"session_identifier": it, "message": request("initialize")})),
            ignored=("has no session_identifier",),
        )
        for name, it in NO_IDENTIFIERS.items()
    ),
    *(
        Fault(id=f"no message: {name}", commit=sends(enveloped(message)), ignored=("",))
        for name, message in NO_MESSAGES.items()
    ),
    *(
        Fault(
            id=f"a call whose id no answer can have, {era} era: {name}",
            commit=sends(enveloped(call_echo(id_, **meta))),
            ignored=("",),
        )
        for name, id_ in NO_IDS.items()
        for era, meta in ERAS.items()
    ),
    Fault(
        id="sessions begun with ids that no answer can have",
        commit=writes(
            b"".join(
                frame(TEXT, enveloped(request("initialize", id_), f"another {number}"))
                for number, id_ in enumerate(NO_IDS.values())
            )
        ),
        ignored=("",) * len(NO_IDS),
    ),
    Fault(
        id="too many values",
        commit=sends(enveloped(request("ping", 9, more=[0] * 100_000))),
        ignored=("holds more than 100000 JSON values, which is the limit",),
    ),
]

# Odd requests and frames that are allowed

WHOLE = enveloped(request("ping", "odd")).encode()
ODD_IDS: dict[str, object] = {
    "of no characters": "",
    "below zero": -(2**70),
    "of 300 digits": 10**299,
    "of 100,000 characters": "ü" * 100_000,
    "with a lone quote and a null character": '"\0',
}
ODD_PINGS: dict[str, dict[str, object]] = {
    "params that are null": {**request("ping"), "params": None},
    "keys that no version has": {**request("ping"), "extra": [1], "result": {}},
}
MEGABYTE = 1024 * 1024
LIMIT = 4 * MEGABYTE
"""Default maximum size of a frame."""


def padded(size: int) -> str:
    """Write a request's frame of this size."""
    text = enveloped(request("ping", "padded"))
    return text + " " * (size - len(text))


ALLOWED = [
    *(
        Fault(id=f"an id {name}", commit=sends(enveloped(request("ping", id_))), answered=(id_,))
        for name, id_ in ODD_IDS.items()
    ),
    *(
        Fault(id=name, commit=sends(enveloped(message)), answered=(message["id"],))
        for name, message in ODD_PINGS.items()
    ),
    Fault(
        id="keys of an envelope that no version has",
        commit=sends(
            json.dumps({"session_identifier": KNOWN, "message": request("ping", 9), "jsonrpc": [1]})
        ),
        answered=(9,),
    ),
    Fault(id="a ping of 125 bytes", commit=writes(frame(PING, b"\xff" * 125))),
    Fault(id="a pong without a ping", commit=writes(frame(PONG, b"?"))),
    Fault(
        id="fragments with a ping between",
        commit=writes(
            frame(TEXT, WHOLE[:9], flags=NOT_FINAL) + frame(PING) + frame(CONTINUATION, WHOLE[9:])
        ),
        answered=("odd",),
    ),
    Fault(
        id="a fragment for each byte",
        commit=writes(
            frame(TEXT, b"", flags=NOT_FINAL)
            + b"".join(frame(CONTINUATION, bytes([byte]), flags=NOT_FINAL) for byte in WHOLE)
            + frame(CONTINUATION)
        ),
        answered=("odd",),
    ),
    Fault(
        id="binary in fragments",
        commit=writes(frame(BINARY, b"{", flags=NOT_FINAL) + frame(CONTINUATION, b"}")),
        ignored=("is binary",),
    ),
    Fault(
        id="a thousand empty frames",
        commit=writes(frame(TEXT) * 1000),
        ignored=(NOT_JSON,) * 1000,
    ),
    Fault(id="the largest frame", commit=sends_at_length(padded(LIMIT)), answered=("padded",)),
]
