"""Stored events of streams, so that a closed stream can be resumed (SEP-1699)."""

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage


class KeptEvents(EventStore):
    """Stores all events; an event's id is its index."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event and return its id; without a message it only marks the stream's start."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        last = int(last_event_id)
        stream = self._events[last - 1][0]
        for number, (each, message) in enumerate(self._events[last:], last + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
