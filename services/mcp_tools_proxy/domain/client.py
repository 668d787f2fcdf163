"""The MCP client behind a call: where the call's notifications and server requests go.

Whether a request of the call was sent to a server is known here as well.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol

from mcp_tools_proxy.domain.errors import ProxyError


class ClientRequestFailed(Exception):
    """The client did not answer a request; ``code`` and ``message`` are those of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Client(Protocol):
    """The client that waits for a call's result, and its channel for messages until then.

    Notifications and requests are MCP's: a method, and params as on the wire.
    """

    @property
    def capabilities(self) -> Mapping[str, object]:
        """Its capabilities, as declared: ``{"elicitation": {"form": {}}, "sampling": {}}``."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether its request has a ``progressToken``."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least level of log messages that the client requested, e.g. ``info``; None for none.

        Servers of MCP 2026-07-28 keep to it. Older servers send any level, so implementations of
        ``notify`` drop what is below the level.
        """
        ...

    @property
    def supports_input_required(self) -> bool:
        """Whether the client understands an ``input_required`` result.

        Such a client (MCP 2026-07-28) calls again with its responses; any other one is sent each
        request through ``request``.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a progress notification or a log message of this call; drop it if that fails.

        ``notifications/progress`` comes without its token: each client has its own. Never raises.
        """
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.

        Returns the raw result. Raises ClientRequestFailed when the client cannot be reached or
        answers with an error.
        """
        ...


class NullClient:
    """The client of a call whose caller only waits for the result, e.g. over the HTTP API."""

    capabilities: Mapping[str, object] = {}
    wants_progress = False
    log_level: str | None = None
    supports_input_required = False

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Drop the notification."""

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Raise ClientRequestFailed: there is no client to send the request to."""
        raise ClientRequestFailed(-32601, "the caller of this tool cannot be asked for input")


NULL_CLIENT = NullClient()


class CapacityExceeded(ProxyError):
    """More sessions, streams, open requests or unread messages of MCP clients than there may be."""

    code = "NO_ROOM"
    retryable = True


class Sending:
    """What is noted of one call; tasks that a call begins share it."""

    __slots__ = ("was_sent",)

    def __init__(self) -> None:
        self.was_sent = False


_CURRENT: ContextVar[Sending | None] = ContextVar("sending", default=None)


def begin_sending() -> Sending:
    """Begin to note what is sent for the call of this task."""
    sending = Sending()
    _CURRENT.set(sending)
    return sending


def note_sent() -> None:
    """Note that a request of the present call goes to its server."""
    sending = _CURRENT.get()
    if sending is not None:
        sending.was_sent = True
