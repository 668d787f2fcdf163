"""The MCP client of a call: target of the call's notifications and of the server's requests.

Also records whether a request of the call was sent to a server.
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

    Notifications and requests have MCP's methods and params.
    """

    @property
    def capabilities(self) -> Mapping[str, object]:
        """The declared capabilities: ``{"elicitation": {"form": {}}, "sampling": {}}``."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether its request has a ``progressToken``."""
        ...

    @property
    def log_level(self) -> str | None:
        """The requested minimum level of log messages, e.g. ``info``; None for none.

        Servers before MCP 2026-07-28 send all levels, so implementations of ``notify`` drop lower
        ones.
        """
        ...

    @property
    def supports_input_required(self) -> bool:
        """Whether the client understands an ``input_required`` result.

        Such a client (MCP 2026-07-28) repeats the call with its responses. Other clients receive
        each request through ``request``.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a progress notification or log message of this call; drop it on failure.

        ``notifications/progress`` comes without a token, because each client has its own. Never
        raises.
        """
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.

        Returns the raw result. Raises ClientRequestFailed if the client cannot be reached or
        answers with an error.
        """
        ...


class NullClient:
    """The client of a call that only receives the result, e.g. over the HTTP API."""

    capabilities: Mapping[str, object] = {}
    wants_progress = False
    log_level: str | None = None
    supports_input_required = False

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Drop the notification."""

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Raise ClientRequestFailed, because this client cannot receive requests."""
        raise ClientRequestFailed(-32601, "the caller of this tool cannot be asked for input")


NULL_CLIENT = NullClient()


class CapacityExceeded(ProxyError):
    """A limit on MCP clients' sessions, streams, open requests or unread messages is reached."""

    code = "NO_ROOM"
    retryable = True


class Sending:
    """Records whether a call was sent; shared by the tasks of the call."""

    __slots__ = ("was_sent",)

    def __init__(self) -> None:
        self.was_sent = False


_CURRENT: ContextVar[Sending | None] = ContextVar("sending", default=None)


def begin_sending() -> Sending:
    """Start recording for the call of this task."""
    sending = Sending()
    _CURRENT.set(sending)
    return sending


def note_sent() -> None:
    """Record that a request of the current call is sent to its server."""
    sending = _CURRENT.get()
    if sending is not None:
        sending.was_sent = True
