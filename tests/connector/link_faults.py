"""Faults that cost the link: invalid WebSocket bytes, closes, and backends that refuse links."""

import struct

from tests.connector.fault import (
    Failure,
    Fault,
    answers,
    closes,
    drop,
    sends_at_length,
    shut,
    vanish,
    writes,
    writes_and_hangs_up,
)
from tests.connector.frame_faults import LIMIT, MEGABYTE, padded
from tests.connector.raw_frames import (
    CLOSE,
    CONTINUATION,
    FINAL,
    NOT_FINAL,
    PING,
    TEXT,
    close_frame,
    frame,
)
from tests.support.remote_backend.handshakes import RawAnswer, Refusal

# Faults that end the link

PROTOCOL_ERROR, NO_TEXT, TOO_BIG = 1002, 1007, 1009
BROKEN = {
    "a ping of 126 bytes": (frame(PING, b"x" * 126), PROTOCOL_ERROR),
    "a ping in fragments": (frame(PING, b"x", flags=NOT_FINAL), PROTOCOL_ERROR),
    "a reserved bit": (frame(TEXT, b"{}", flags=FINAL | 0x40), PROTOCOL_ERROR),
    "an unknown opcode of data": (frame(3), PROTOCOL_ERROR),
    "an unknown opcode of control": (frame(11), PROTOCOL_ERROR),
    "the end of nothing": (frame(CONTINUATION, b"x"), PROTOCOL_ERROR),
    "two beginnings": (frame(TEXT, b"{", flags=NOT_FINAL) + frame(TEXT, b"}"), PROTOCOL_ERROR),
    "half a close code": (frame(CLOSE, b"x"), PROTOCOL_ERROR),
    "a close code that is never sent": (close_frame(1005), PROTOCOL_ERROR),
    "an unknown close code": (close_frame(999), PROTOCOL_ERROR),
    "a reason that is not UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), NO_TEXT),
}
OVERSIZED = {
    "a length of 2**62": writes(struct.pack("!BBQ", FINAL | TEXT, 127, 2**62)),
    "a length of 2**63": writes(struct.pack("!BBQ", FINAL | TEXT, 127, 2**63)),
    "a length of a byte over the limit": writes(struct.pack("!BBQ", FINAL | TEXT, 127, LIMIT + 1)),
    "fragments that are over the limit together": writes(
        frame(TEXT, "x" * LIMIT, flags=NOT_FINAL) + frame(CONTINUATION, "x", flags=NOT_FINAL)
    ),
}
NOT_READ_WHOLE = {
    "a frame of a byte over the limit": padded(LIMIT + 1),
    "a frame of ten megabytes": "x" * 10 * MEGABYTE,
}
"""The system resets the connection because of unread data, so the close frame may be lost."""
OVER_THE_LIMIT = Failure(reason=f"a frame of the backend was over {LIMIT} bytes")
ACCIDENTS = (1000, 1001, 1011, 1012, 1014)
"""Close codes that do not keep a gateway away."""
DELIBERATE = (1008, 1013, 3000, 4409)


def closed(code: int, kind: str) -> Failure:
    return Failure(kind=kind, reason=f"the backend closed the link with code {code}")


LOST = [
    *(
        Fault(
            id=name,
            commit=writes(data),
            loss=Failure(reason=f"the backend violated the WebSocket protocol, code {code}"),
            close_code=code,
        )
        for name, (data, code) in BROKEN.items()
    ),
    *(
        Fault(id=name, commit=commit, loss=OVER_THE_LIMIT, close_code=TOO_BIG)
        for name, commit in OVERSIZED.items()
    ),
    *(
        Fault(id=name, commit=sends_at_length(text), loss=OVER_THE_LIMIT)
        for name, text in NOT_READ_WHOLE.items()
    ),
    *(
        Fault(id=f"closed with {code}", commit=closes(code), loss=closed(code, "lost"))
        for code in ACCIDENTS
    ),
    *(
        Fault(id=f"closed with {code}", commit=closes(code), loss=closed(code, "closed"))
        for code in DELIBERATE
    ),
    Fault(id="closed without a code", commit=writes(frame(CLOSE)), loss=Failure(reason="")),
    Fault(id="dropped", commit=drop, loss=Failure()),
    Fault(id="pinged and hung up", commit=writes_and_hangs_up(frame(PING) * 3), loss=Failure()),
    Fault(
        id="pinged, closed with 4409 and hung up",
        commit=writes_and_hangs_up(frame(PING) + close_frame(4409)),
        loss=closed(4409, "closed"),
    ),
]

# Backends that refuse other links for a while

UNREACHABLE = "could not be reached: "
NO_HTTP = f"{UNREACHABLE}ClientResponseError"
RAW_ANSWERS = {
    "another protocol": (b"SSH-2.0-x\r\n\r\n", NO_HTTP),
    "half a status line": (b"HTTP/1.1 10", UNREACHABLE),
    "a header without an end": (b"HTTP/1.1 101 X\r\nX: " + b"x" * 100_000, NO_HTTP),
    "nothing": (b"", UNREACHABLE),
}
RAW_REFUSALS = {
    "a page": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200),
    "a body without an end": (
        b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        500,
    ),
    "the answer to another key": (
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
        101,
    ),
}
NO_PAUSES = ("0", "-1", "soon", "", "0.001", "Wed, 21 Oct 2015 07:28:00 GMT")
"""``Retry-After`` values that must not cause rapid redials."""


def refused(status: int, kind: str = "refused") -> Failure:
    return Failure(
        kind=kind, reason=f"the backend answered with HTTP status {status} instead of a WebSocket"
    )


OUTAGES = [
    Fault(
        id="down",
        commit=shut,
        loss=Failure(),
        outage=Failure(kind="unreachable", reason=f"{UNREACHABLE}Connection refused"),
    ),
    *(
        Fault(
            id=f"answers {name}",
            commit=answers(RawAnswer(data)),
            loss=Failure(),
            outage=Failure(kind="unreachable", reason=reason),
        )
        for name, (data, reason) in RAW_ANSWERS.items()
    ),
    *(
        Fault(
            id=f"answers {name}",
            commit=answers(RawAnswer(data)),
            loss=Failure(),
            outage=refused(status),
        )
        for name, (data, status) in RAW_REFUSALS.items()
    ),
    *(
        Fault(
            id=f"answers {status}",
            commit=answers(Refusal(status)),
            loss=Failure(),
            outage=refused(status, kind),
        )
        for kind, statuses in {
            "unreachable": (502, 503, 504),
            "refused": (400, 404, 426, 429, 500),
        }.items()
        for status in statuses
    ),
    *(
        Fault(
            id=f"answers {status}, Retry-After: {it}",
            commit=answers(Refusal(status, retry_after=it)),
            loss=Failure(),
            outage=refused(status, kind),
        )
        for status, kind in ((429, "refused"), (503, "unreachable"))
        for it in NO_PAUSES
    ),
]

# Faults that need other settings

OWN_SETTINGS = [
    Fault(
        id="vanished",
        commit=vanish,
        loss=Failure(reason="the backend did not answer a ping"),
        settings={"remote_keepalive_s": 2},
    ),
    Fault(
        id="dropped, without any grace",
        commit=drop,
        loss=Failure(),
        ends_sessions=True,
        settings={"remote_drop_grace_s": 0},
    ),
    Fault(
        id="down for longer than the grace",
        commit=shut,
        loss=Failure(),
        outage=Failure(kind="unreachable", reason=UNREACHABLE),
        ends_sessions=True,
        settings={"remote_drop_grace_s": 0.3},
    ),
]
