"""A call's client as the executor sees it, over the SDK's session."""

from collections.abc import Awaitable, Callable, Mapping
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

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""What a log line may be, the least first (RFC 5424)."""

SendMessage = Callable[[Mapping[str, object]], Awaitable[None]]
"""Sends one message to a client."""

log = structlog.get_logger()


class _RawRequest(BaseModel):
    """A request of a server to a client, as it is on the wire."""

    method: str
    params: dict[str, Any]


class _RawNotification(Notification[dict[str, Any], str]):
    """A notification, as it is on the wire."""


class _RawResult(BaseModel):
    """A client's result, as it came."""

    model_config = ConfigDict(extra="allow")


class SessionClient:
    """The client of one request that the SDK serves.

    ``log_level`` is the least severe log line it wants, None when it wants none.
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
        """What it declared, as MCP spells it."""
        declared = self._session.client_capabilities
        if declared is None:
            return {}
        raw: dict[str, object] = declared.model_dump(by_alias=True, mode="json", exclude_none=True)
        return raw

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell it of this call's progress, or a log line; see Client."""
        try:
            if method == "notifications/progress":
                await self._send_progress(cast("Mapping[str, Any]", params))
            elif method == "notifications/message" and is_wanted(
                params.get("level"), self.log_level
            ):
                notification = cast(
                    "ServerNotification", _RawNotification(method=method, params=dict(params))
                )
                await self._session.send_notification(
                    notification, related_request_id=self._request_id
                )
        except Exception as error:  # noqa: BLE001 - a note that nobody hears must not end a call
            log.debug("facade.note_lost", method=method, error=type(error).__name__)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Ask it, and give its raw result; see Client."""
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


class EnvelopeClient:
    """The client of one plain request of MCP 2026-07-28, which declares what it is capable of.

    ``send`` sends it a message, None where nothing can be said before the result. It is asked
    nothing: it comes again with the answers.
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
        """Whether it wants to hear of progress."""
        return self._progress_token is not None

    @property
    def capabilities(self) -> Mapping[str, object]:
        """What it declared, as MCP spells it; nothing for what is none of MCP's."""
        try:
            declared = ClientCapabilities.model_validate(self._declared, by_name=False)
        except ValidationError:
            return {}
        return declared.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell it of this call's progress, or a log line; see Client."""
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
        except Exception as error:  # noqa: BLE001 - a note that nobody hears must not end a call
            log.debug("facade.note_lost", method=method, error=type(error).__name__)

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Raise ClientRequestFailed."""
        raise ClientRequestFailed(
            INVALID_REQUEST, "the client cannot be asked anything over this connection"
        )


def is_wanted(level: object, least: str | None) -> bool:
    """Tell whether a log line of ``level`` is for a client that wants ``least`` and worse."""
    if least is None or level not in LEVELS:
        return False
    return LEVELS.index(level) >= LEVELS.index(least)
