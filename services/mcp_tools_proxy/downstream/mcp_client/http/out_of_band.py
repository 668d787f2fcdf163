"""Messages over HTTP outside of a call's request and response.

These are notifications both ways, the server's own requests, and the answers to them.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio.abc
from mcp.shared.dispatcher import (
    DispatchContext,
    OnNotifyIntercept,
    OnRequest,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.transport_context import TransportContext
from pydantic import ValidationError

from mcp_tools_proxy.downstream.call_relay import CallRelay
from mcp_tools_proxy.downstream.client_request_rules import CLIENT_REQUESTS
from mcp_tools_proxy.downstream.connection import ConnectionFailure, OnListChanged
from mcp_tools_proxy.downstream.mcp_client.http.http_endpoint import HttpEndpoint
from mcp_tools_proxy.downstream.mcp_client.in_flight import (
    CANCELLED,
    RELAYED_NOTIFICATIONS,
    ClientRequest,
    InFlight,
)
from mcp_tools_proxy.downstream.mcp_client.messages import LIST_CHANGED

_SEND_TIMEOUT_S = 5.0  # for a message without response, such as a cancellation


class OutOfBandChannel:
    """Receives the server's own messages; with ``legacy`` the server may send requests as well."""

    def __init__(
        self, endpoint: HttpEndpoint, calls: InFlight, on_list_changed: OnListChanged
    ) -> None:
        self.legacy = False
        self._endpoint = endpoint
        self._calls = calls
        self._on_list_changed = on_list_changed
        self._tasks: anyio.abc.TaskGroup | None = None
        self._on_request: OnRequest | None = None
        self._intercept: OnNotifyIntercept | None = None

    def __repr__(self) -> str:
        return f"<OutOfBandChannel legacy={self.legacy}>"

    def open(
        self,
        tasks: anyio.abc.TaskGroup,
        on_request: OnRequest,
        on_notify_intercept: OnNotifyIntercept | None,
    ) -> None:
        """Start to answer the server's requests, in ``tasks``."""
        self._tasks = tasks
        self._on_request, self._intercept = on_request, on_notify_intercept

    async def receive(self, message: dict[str, Any], size: int, relay: CallRelay | None) -> None:
        """Dispatch a message of the server, for the call of ``relay`` if it concerns one."""
        method, params, request_id = (message.get(key) for key in ("method", "params", "id"))
        if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            return
        if request_id is None:
            self._on_notification(method, params or {}, size, relay)
        elif not self.legacy or self._on_request is None or not isinstance(request_id, int | str):
            return
        elif method not in CLIENT_REQUESTS:
            await self.send(await respond_to(self._on_request, request_id, method, params))
        elif self._tasks is not None:
            request = ClientRequest(request_id, method, params or {}, relay)
            self._calls.start_client_request(self._tasks, request, self.send)

    def _on_notification(
        self, method: str, params: dict[str, Any], size: int, relay: CallRelay | None
    ) -> None:
        if method in RELAYED_NOTIFICATIONS:
            self._calls.dispatch_notification(method, params, size, relay)
            return
        if method == CANCELLED:
            self._calls.cancel_client_request(params.get("requestId"), relay)
        is_consumed = run_notify_intercept(self._intercept, method, params)
        if not is_consumed and method in LIST_CHANGED:
            self._on_list_changed()

    async def send(self, message: Mapping[str, Any], delay_s: float = 0.0) -> None:
        """Send a message that has no response; a failure is ignored."""
        await asyncio.sleep(delay_s)
        with suppress(ConnectionFailure, TimeoutError):
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                message = {"jsonrpc": "2.0", **message}
                response = await self._endpoint.post(message, self._endpoint.session_headers)
                response.release()


@dataclass(frozen=True, slots=True)
class _RequestContext:
    """The part of a request's context that the SDK's session reads."""

    request_id: int | str


async def respond_to(
    on_request: OnRequest, request_id: int | str, method: str, params: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Pass a request of the server to the SDK's session; return the response as a message."""
    context = cast("DispatchContext[TransportContext]", _RequestContext(request_id))
    try:
        return {"id": request_id, "result": await on_request(context, method, params)}
    except (MCPError, ValidationError) as error:
        data = handler_exception_to_error_data(error)
        return {"id": request_id, "error": data.model_dump(exclude_none=True) if data else {}}
