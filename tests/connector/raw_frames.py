"""WebSocket frames that no library writes, with the connector's envelope."""

import json
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FINAL, NOT_FINAL = 0x80, 0
KNOWN = "known"
"""Default session identifier of a test."""


def frame(opcode: int, payload: bytes | str = b"", *, flags: int = FINAL) -> bytes:
    """Write a server's WebSocket frame; ``flags`` are the other bits of its first byte."""
    data = payload.encode() if isinstance(payload, str) else payload
    if len(data) < 126:
        return struct.pack("!BB", flags | opcode, len(data)) + data
    if len(data) < 2**16:
        return struct.pack("!BBH", flags | opcode, 126, len(data)) + data
    return struct.pack("!BBQ", flags | opcode, 127, len(data)) + data


def close_frame(code: int) -> bytes:
    return frame(CLOSE, struct.pack("!H", code))


def enveloped(message: object, session_identifier: str = KNOWN) -> str:
    return json.dumps({"session_identifier": session_identifier, "message": message})


def request(method: str, id_: object = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
