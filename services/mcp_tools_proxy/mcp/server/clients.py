"""Clients of a call: of a stateless request, or of a session's request.

Both implement ``domain.client.Client``: notifications, and requests of servers to the client.
"""

from collections.abc import Mapping
from typing import Protocol

import structlog

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.wire.json_rpc import SendMessage
from mcp_tools_proxy.wire.mcp_protocol import INVALID_REQUEST

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Severities of log messages, lowest first (RFC 5424)."""

log = structlog.get_logger()


def is_client_info(value: object) -> bool:
    """Return whether a value is a client's name and version."""
    match value:
        case {"name": str(), "version": str()}:
            return True
    return False


def client_name_of(info: object) -> str | None:
    """Return the name in a client's info, if any."""
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else None


def read_capabilities(declared: object) -> Mapping[str, Mapping[str, object]]:
    """Return the declared capabilities, without values that are not objects.

    Some clients write null for parts that they lack.
    """
    objects = declared.items() if isinstance(declared, Mapping) else ()
    return {
        name: {part: value for part, value in capability.items() if value is not None}
        for name, capability in objects
        if isinstance(capability, Mapping)
    }


class _RequestClient:
    """The client of a request.

    ``send`` sends messages before the response; None if the response is the only message.
    ``log_level`` is the lowest severity of log messages that it wants; None for no messages.
    """

    def __init__(
        self, send: SendMessage | None, progress_token: object, log_level: str | None
    ) -> None:
        self.log_level = log_level
        self._send = send
        is_token = isinstance(progress_token, str | int) and not isinstance(progress_token, bool)
        self._progress_token = progress_token if is_token else None

    @property
    def wants_progress(self) -> bool:
        """Whether the request has a progress token."""
        return self._progress_token is not None

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a progress or log notification of this call; see Client. Never raises."""
        if self._send is None:
            return
        sent: Mapping[str, object] | None = None
        if method == "notifications/progress" and self._progress_token is not None:
            own = {key: value for key, value in params.items() if key != "progressToken"}
            sent = {"progressToken": self._progress_token, **own}
        elif method == "notifications/message" and is_wanted(params.get("level"), self.log_level):
            sent = params
        if sent is None:
            return
        try:
            await self._send({"jsonrpc": "2.0", "method": method, "params": sent})
        except Exception as error:  # noqa: BLE001 - a lost notification must not fail the call
            log.debug("facade.note_lost", method=method, error=type(error).__name__)


class StatelessClient(_RequestClient):
    """The client of a stateless request of MCP 2026-07-28, which declares its capabilities.

    Requests to such a client are part of the result (``input_required``); the client repeats the
    call with its responses.
    """

    supports_input_required = True

    def __init__(
        self,
        declared: object,
        send: SendMessage | None,
        progress_token: object,
        log_level: str | None,
    ) -> None:
        super().__init__(send, progress_token, log_level)
        self._declared = declared

    @property
    def capabilities(self) -> Mapping[str, object]:
        """The declared capabilities in MCP's spelling."""
        return read_capabilities(self._declared)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Raise ClientRequestFailed: there is no channel for requests to the client."""
        raise _unreachable()


class RequestsToClient(Protocol):
    """A session, as used by HandshakeClient."""

    capabilities: Mapping[str, object]

    async def request_client(
        self, send: SendMessage, method: str, params: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Send the client a request with ``send`` and return its result."""
        ...


class HandshakeClient(_RequestClient):
    """The client of a request in a session of the older eras."""

    supports_input_required = False

    def __init__(
        self,
        session: RequestsToClient,
        send: SendMessage | None,
        progress_token: object,
        log_level: str | None,
    ) -> None:
        super().__init__(send, progress_token, log_level)
        self._session = session

    @property
    def capabilities(self) -> Mapping[str, object]:
        """The capabilities declared in the handshake, in MCP's spelling."""
        return self._session.capabilities

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send a request to the client and return its raw result. Raises ClientRequestFailed."""
        if self._send is None:
            raise _unreachable()
        return await self._session.request_client(self._send, method, params)


def _unreachable() -> ClientRequestFailed:
    return ClientRequestFailed(
        INVALID_REQUEST, "the client cannot be asked for input over this connection"
    )


def is_wanted(level: object, least: str | None) -> bool:
    """Return whether a log message of ``level`` reaches ``least``; None wants no messages."""
    if least is None or level not in LEVELS:
        return False
    return LEVELS.index(level) >= LEVELS.index(least)
