"""Messages between the supervisor and a worker: pickled, each after its length.

Both ends are this program, started by the same user; nothing from outside is unpickled.
"""

import asyncio
import pickle
import socket
import struct
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.settings.settings import Settings

_LENGTH = struct.Struct("!I")


class Message(StrEnum):
    """The kinds of messages."""

    # from the supervisor
    PLAN = "plan"
    LEAD = "lead"
    RETIRE = "retire"
    STOP = "stop"
    CLOSE = "close"
    PING = "ping"
    HAND_DOWN = "hand down"
    # from a worker
    READY = "ready"
    SETTLED = "settled"
    FAILED = "failed"
    LEAVING = "leaving"
    IDLE = "idle"
    PONG = "pong"
    KEEP = "keep"
    CONNECTIONS = "connections"
    # from either
    ASK = "ask"
    """A question to the other workers, with its number."""
    REPLY = "reply"
    """The answer, or all answers, with the number of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """The first message to a worker: all that it needs to start."""

    settings: Settings
    number: int
    """Its number among the workers that run, from 1; it names its audit file."""
    size: int
    """The number of workers of the service."""
    is_first: bool
    """Whether it is the first worker since the start of the service."""
    greets: bool
    """Whether it prints the addresses and an example command when it listens."""
    address: tuple[str, int]
    """Host and port of the service."""
    started_at: datetime
    """The start of the service."""
    console_key: bytes
    """The key of one-time addresses and their sessions, the same in all workers."""


class WorkerLink:
    """One end of a socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        """Take over an end of a socket pair."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, kind: Message, *values: object) -> None:
        """Queue a message; no effect if the other end is closed."""
        if not self._writer.is_closing():
            content = pickle.dumps((kind, values))
            self._writer.write(_LENGTH.pack(len(content)) + content)

    async def receive(self) -> tuple[Message, tuple[Any, ...]] | None:
        """Return the kind and the values of the next message; None at the end."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            content = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        kind, values = pickle.loads(content)  # noqa: S301 - see the module
        return kind, values

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


def receive_plan(end: socket.socket) -> WorkerPlan:
    """Read the plan, before an event loop runs. Raises EOFError if the supervisor has ended."""
    with end.makefile("rb", buffering=0) as stream:
        (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
        _, (plan,) = pickle.loads(_read(stream, length))  # noqa: S301 - see the module
    return plan  # type: ignore[no-any-return]


def _read(stream: Any, length: int) -> bytes:
    content = b""
    while len(content) < length:
        more = stream.read(length - len(content))
        if not more:
            raise EOFError
        content += more
    return content
