"""Received frames: recorded raw, and passed to their sessions."""

import json
from collections import deque
from collections.abc import Callable

from tests.support.remote_backend.session import Json

KEPT = 10_000
Take = Callable[[Json], None]


class Inbox:
    def __init__(self) -> None:
        self.frames: deque[str | bytes] = deque(maxlen=KEPT)
        self.strays: deque[str | bytes] = deque(maxlen=KEPT)
        self.handlers: dict[str, Take] = {}
        self.count = 0

    def on_message(self, data: str | bytes) -> None:
        self.count += 1
        self.frames.append(data)
        session_identifier, message = parts_of(data)
        on_message = self.handlers.get(session_identifier)
        if on_message is None or message is None:
            self.strays.append(data)
        else:
            on_message(message)


def parts_of(data: str | bytes) -> tuple[str, Json | None]:
    """Parse a frame's session identifier and message; "" and None without an envelope."""
    try:
        frame = json.loads(data) if isinstance(data, str) else None
    except ValueError:
        return "", None
    match frame:
        case {"session_identifier": str(identifier), "message": dict(message)}:
            return identifier, message
    return "", None
