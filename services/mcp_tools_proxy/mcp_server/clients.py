"""The two clients that a call can have: one behind an SDK session, one behind a stateless request.

Both implement ``domain.client.Client``: notifications, and requests of servers to the client.
"""

from collections.abc import Mapping
from typing import Any, cast

import structlog
from mcp import MCPError
from mcp.server.session import ServerSession
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ClientCapabilities,
    Notification,
    RequestId,
    ServerNotification,
    ServerRequest,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.wire.json_rpc import SendMessage

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Severities of log messages, lowest first (RFC 5424)."""

log = structlog.get_logger()


class _RawRequest(BaseModel):
    """A server's request to the client, passed on unchanged: the SDK's models would drop fields."""

    method: str
    params: dict[str, Any]


class _RawNotification(Notification[dict[str, Any], str]):
    """A notification, passed on unchanged."""


class _RawResult(BaseModel):
    """A client's result, passed back unchanged."""

    model_config = ConfigDict(extra="allow")


class SessionClient:
    """The client of one request that the SDK serves.

    ``log_level`` is the lowest severity of log messages that it wants, None for none.
    """

    def __init__(
        self,
        session: ServerSession,
        request_id: RequestId,
        progress_token: object,
        log_level: str | None,
        *,
        supports_input_required: bool,
    ) -> None:
        self.supports_input_required = supports_input_required
        self.wants_progress = progress_token is not None
        self.log_level = log_level
        self._session = session
        self._request_id = request_id

    @property
    def capabilities(self) -> Mapping[str, object]:
        """The capabilities that the client declared, in MCP's spelling."""
        declared = self._session.client_capabilities
        if declared is None:
            return {}
        raw: dict[str, object] = declared.model_dump(by_alias=True, mode="json", exclude_none=True)
        return raw

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a progress or log notification of this call; see Client. Never raises."""
        try:
            if method == "notifications/progress":
                await self._send_progress(cast("Mapping[str, Any]", params))
            elif method == "notifications/message" and is_wanted(
                params.get("level"), self.log_level
            ):
                await _send_raw(self._session, self._request_id, method, params)
        except Exception as error:  # noqa: BLE001 - a lost notification must not fail the call
            log.debug("facade.note_lost", method=method, error=type(error).__name__)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send a request to the client and return its raw result. Raises ClientRequestFailed."""
        request = cast("ServerRequest", _RawRequest(method=method, params=dict(params)))
        try:
            result = await self._session.send_request(
                request,
                _RawResult,
                metadata=ServerMessageMetadata(related_request_id=self._request_id),
            )
        except NoBackChannelError:
            raise ClientRequestFailed(
                INVALID_REQUEST, "the client cannot be asked anything over this connection"
            ) from None
        except MCPError as error:
            raise ClientRequestFailed(error.code, error.message) from None
        except ValidationError:
            raise ClientRequestFailed(
                INTERNAL_ERROR, "the client's answer is not one of MCP"
            ) from None
        return result.model_dump(by_alias=True, mode="json")

    async def _send_progress(self, params: Mapping[str, Any]) -> None:
        if self.wants_progress:
            await self._session.report_progress(
                params["progress"], params.get("total"), params.get("message")
            )


def session_sender(session: ServerSession, request_id: RequestId) -> SendMessage:
    """Return a function that sends notifications before the response to an SDK's request."""

    async def send(message: Mapping[str, object]) -> None:
        params = cast("Mapping[str, object]", message["params"])
        await _send_raw(session, request_id, str(message["method"]), params)

    return send


async def _send_raw(
    session: ServerSession, request_id: RequestId, method: str, params: Mapping[str, object]
) -> None:
    notification = _RawNotification(method=method, params=dict(params))
    await session.send_notification(
        cast("ServerNotification", notification), related_request_id=request_id
    )


class StatelessClient:
    """The client of one stateless request of MCP 2026-07-28, which declares its own capabilities.

    ``send`` sends it a message, None where the result is the only message of the response. Requests
    to such a client are part of the result (``input_required``); it repeats the call with its
    responses.
    """

    supports_input_required = True

    def __init__(
        self,
        declared: object,
        send: SendMessage | None,
        progress_token: object,
        log_level: str | None,
    ) -> None:
        self.log_level = log_level
        self._declared = declared
        self._send = send
        is_token = isinstance(progress_token, str | int) and not isinstance(progress_token, bool)
        self._progress_token = progress_token if is_token else None

    @property
    def wants_progress(self) -> bool:
        """Whether the request has a progress token."""
        return self._progress_token is not None

    @property
    def capabilities(self) -> Mapping[str, object]:
        """The declared capabilities in MCP's spelling; {} when they do not validate."""
        try:
            declared = ClientCapabilities.model_validate(self._declared, by_name=False)
        except ValidationError:
            return {}
        return declared.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a progress or log notification of this call; see Client. Never raises."""
        if self._send is None:
            return
        sent: Mapping[str, object] | None = None
        if method == "notifications/progress" and self._progress_token is not None:
            sent = {**params, "progressToken": self._progress_token}
        elif method == "notifications/message" and is_wanted(params.get("level"), self.log_level):
            sent = params
        if sent is None:
            return
        try:
            await self._send({"jsonrpc": "2.0", "method": method, "params": sent})
        except Exception as error:  # noqa: BLE001 - a lost notification must not fail the call
            log.debug("facade.note_lost", method=method, error=type(error).__name__)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Raise ClientRequestFailed: there is no channel for a request to the client."""
        raise ClientRequestFailed(
            INVALID_REQUEST, "the client cannot be asked anything over this connection"
        )


def is_wanted(level: object, least: str | None) -> bool:
    """Return whether a log message of ``level`` reaches the severity ``least``; None wants no
    messages."""
    if least is None or level not in LEVELS:
        return False
    return LEVELS.index(level) >= LEVELS.index(least)
