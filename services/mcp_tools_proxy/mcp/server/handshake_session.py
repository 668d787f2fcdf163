"""Sessions of MCP's older eras: a handshake, then requests in both directions.

A transport (streamable HTTP, legacy HTTP+SSE, stdio, the connector) parses the client's messages
and sends ours. Stateless requests of the newer era are in stateless.py.
"""

import asyncio
import itertools
import re
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Any, NamedTuple, Self, cast
from uuid import uuid4

import structlog
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.domain.errors import InternalError, InvalidRequest
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.mcp.server.clients import (
    LEVELS,
    HandshakeClient,
    client_name_of,
    is_client_info,
    read_capabilities,
)
from mcp_tools_proxy.mcp.server.request import NO_HEADERS, McpRequest
from mcp_tools_proxy.mcp.server.results import Json, error_response, protocol_error, result_response
from mcp_tools_proxy.mcp.server.server import HANDSHAKE_CAPABILITIES, GatewayMcpServer
from mcp_tools_proxy.mcp.server.subscriptions import (
    SessionSubscriptions,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError, RequestId, SendMessage
from mcp_tools_proxy.wire.mcp_protocol import (
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
)

INITIALIZE = "initialize"

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"

COURTESY_S = 0.5
"""Seconds for notifying a client that we no longer wait for its response."""

_OUR_ID = re.compile(r"([0-9a-f]{8})-[0-9]{1,18}")

_request_numbers = itertools.count(1)

log = structlog.get_logger()


class RequestCancelled(Exception):
    """The client has cancelled its request, or the session has ended."""


class Declared(NamedTuple):
    """Declarations of a client in its handshake."""

    version: str
    """The negotiated protocol version."""
    capabilities: Mapping[str, Any]
    client_name: str | None = None
    """None at a replica that did not serve the handshake."""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Self:
        """Parse the parameters of ``initialize``. Raises JsonRpcError.

        An unknown version is answered with the newest one, and the client decides.
        """
        requested = params.get("protocolVersion")
        capabilities = params.get("capabilities")
        if not isinstance(requested, str):
            raise JsonRpcError(INVALID_PARAMS, "protocolVersion should be a string")
        if not isinstance(capabilities, dict):
            raise JsonRpcError(INVALID_PARAMS, "capabilities should be an object")
        if not is_client_info(params.get("clientInfo")):
            raise JsonRpcError(
                INVALID_PARAMS, "clientInfo should be an object with name and version"
            )
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        client_name = client_name_of(params.get("clientInfo"))
        return cls(version, read_capabilities(capabilities), client_name)


class _OpenRequest:
    __slots__ = ("is_cancelled", "task")

    def __init__(self) -> None:
        self.task = cast("asyncio.Task[Any]", asyncio.current_task())
        self.is_cancelled = False

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel()


class HandshakeSession:
    """A session: its client's declarations, and pending requests of both sides.

    ``send`` sends messages that no client request has caused: changes of lists and of resources.
    """

    __slots__ = (
        "_requests",
        "_responses",
        "_server",
        "capabilities",
        "client_name",
        "log_level",
        "run_id",
        "subscriptions",
    )

    def __init__(
        self,
        server: GatewayMcpServer,
        declared: Declared,
        send: SendMessage,
        *,
        name: str | None = None,
    ) -> None:
        """Create a session; ``name`` is the same at all replicas, None if one has the session."""
        self._server = server
        self.run_id = f"session-{name or uuid4().hex}" if server.sessions_are_runs else None
        """The run of requests that name none; None if sessions are no runs."""
        self.capabilities = declared.capabilities
        self.client_name = declared.client_name
        self.log_level = LEVELS[0]
        """The lowest level of log messages that the client wants; initially all."""
        self.subscriptions: SessionSubscriptions = server.session_subscriptions(send)
        self._requests: dict[str, _OpenRequest] = {}
        """Pending client requests, by id; 1 and "1" are the same id."""
        self._responses: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        """Our pending requests, by id."""

    def __repr__(self) -> str:
        return f"<HandshakeSession {len(self._requests)} open requests>"

    @property
    def holds_state(self) -> bool:
        """Whether the client has settings or subscriptions that a new session would lack."""
        return self.log_level != LEVELS[0] or bool(self.subscriptions)

    def check_id(self, id_: RequestId) -> None:
        """Raise InvalidRequest if the id belongs to a pending request."""
        if str(id_) in self._requests:
            raise InvalidRequest("a request with this id is still in progress; use another id")

    async def answer(
        self,
        content: Json,
        caller: Caller,
        send: SendMessage | None,
        *,
        headers: Headers = NO_HEADERS,
        options: ListOptions = SERVER_NAMES,
    ) -> Json:
        """Return the JSON-RPC response to a request, which can be an error response.

        ``send`` sends messages before the response, if possible. ``options`` applies to lists.
        Raises RequestCancelled if the client cancels the request or the session ends.
        """
        id_, method = content["id"], content["method"]
        open_request = self._requests[str(id_)] = _OpenRequest()
        request = McpRequest.from_params(
            method,
            content.get("params") or {},
            caller,
            lambda token, level: HandshakeClient(self, send, token, level),
            modern=False,
            headers=headers,
            session_log_level=self.log_level,
            options=options,
            client_name=self.client_name,
            session_run=self.run_id,
        )
        try:
            result = await self._result_of(request)
        except JsonRpcError as error:
            self._server.record_error(request, error)
            return error_response(id_, error)
        except asyncio.CancelledError:
            if open_request.is_cancelled and not open_request.task.uncancel():
                raise RequestCancelled from None
            raise
        except Exception:
            log.exception("facade.crashed", method=method, trace_id=request.trace_id)
            crash = protocol_error(InternalError(), request.trace_id, modern=False)
            self._server.record_error(request, crash)
            return error_response(id_, crash)
        finally:
            del self._requests[str(id_)]
        return result_response(id_, result)

    def receive(self, content: Mapping[str, Any]) -> bool:
        """Receive a notification of the client, or its response to a request of ours.

        Returns False if it is unknown here.
        """
        if "method" not in content:
            waiting = self._responses.get(str(content.get("id")))
            if waiting is None:
                return False
            if not waiting.done():
                waiting.set_result(content)
            return True
        if content["method"] != CANCELLED:
            return False
        id_ = (content.get("params") or {}).get("requestId")
        open_request = self._requests.get(str(id_))
        if open_request is None:
            return False
        open_request.cancel()
        return True

    async def request_client(
        self, send: SendMessage, method: str, params: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Send the client a request and return its result. Raises ClientRequestFailed.

        ``send`` belongs to the client request that caused ours.
        """
        id_ = f"{self._server.replica}-{next(_request_numbers)}"
        waiting = self._responses[id_] = asyncio.get_running_loop().create_future()
        try:
            await send({"jsonrpc": "2.0", "id": id_, "method": method, "params": dict(params)})
            response = await waiting
        except asyncio.CancelledError:
            with suppress(TimeoutError):  # the client may have stopped reading
                async with asyncio.timeout(COURTESY_S):
                    await send(cancelled(id_, reason="the call has ended"))
            raise
        finally:
            del self._responses[id_]
        return _result_in(response)

    async def follow(self, uris: Set[str], caller: Caller, *, notify: bool = False) -> None:
        """Subscribe to exactly these resources, except those that fail.

        With ``notify``, the client is notified of each new one, which may have changed.
        """
        for uri in self.subscriptions.uris - uris:
            self.subscriptions.unsubscribe(uri)
        for uri in uris - self.subscriptions.uris:
            request = McpRequest.from_params(
                "resources/subscribe",
                {"uri": uri},
                caller,
                lambda token, level: HandshakeClient(self, None, token, level),
                modern=False,
            )
            with suppress(JsonRpcError):
                await self.subscriptions.subscribe(request, uri)
                if notify:
                    await self.subscriptions.send_updates({uri})

    def end(self) -> None:
        """End the session here: cancel its requests and subscriptions."""
        for request in self._requests.values():
            request.cancel()
        self.subscriptions.cancel_all()

    async def _result_of(self, request: McpRequest) -> Json:
        if request.method in self._server.methods:
            return await self._server.handle(request)
        request = request.narrowed()
        match request.method:
            case "ping":
                return {}
            case "logging/setLevel":
                self.log_level = _level_in(request)
                return {}
            case "resources/subscribe":
                await self.subscriptions.subscribe(request, request.require_str("uri"))
                self._server.record_subscription(request, resources=1)
                return {}
            case "resources/unsubscribe":
                self.subscriptions.unsubscribe(request.require_str("uri"))
                self._server.record_subscription(request, resources=0)
                return {}
        raise JsonRpcError(METHOD_NOT_FOUND, "Method not found", request.method)


def initialize_result(server: GatewayMcpServer, declared: Declared, caller: Caller) -> Json:
    """Build the result of ``initialize``."""
    return {
        "protocolVersion": declared.version,
        "capabilities": HANDSHAKE_CAPABILITIES,
        "serverInfo": server.info,
        **server.instructions_for(caller),
    }


def _level_in(request: McpRequest) -> str:
    level = request.require_str("level")
    if level not in LEVELS:
        raise JsonRpcError(INVALID_PARAMS, f"level should be one of {', '.join(LEVELS)}")
    return level


def _result_in(response: Mapping[str, Any]) -> Mapping[str, object]:
    match response:
        case {"result": dict(result)}:
            return result
        case {"error": {"code": int(code), "message": str(message)}}:
            raise ClientRequestFailed(code, message)
    raise ClientRequestFailed(INTERNAL_ERROR, "the client's answer is not one of MCP")


def cancelled(id_: RequestId, **more: str) -> Json:
    """Build the notification that cancels a request."""
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id_, **more}}


def replica_of(id_: str) -> str | None:
    """Return the replica that sent the request with this id to a client, or None."""
    ours = _OUR_ID.fullmatch(id_)
    return None if ours is None else ours[1]
