"""The Connection over any transport: negotiated by the SDK's session, with raw messages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import lru_cache, partial
from typing import Any, Protocol

import anyio
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    Implementation,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.connection import (
    FAULTS,
    CallHeaders,
    Connection,
    OnListChanged,
    Relay,
    ResultNotAnObject,
    SubscribedResources,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import from_mcp_error
from mcp_tools_proxy.downstream.mcp_client.negotiate import negotiate, probe_timeout_for
from mcp_tools_proxy.system.backoff import keep_stream_open
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import has_header_parameters
from mcp_tools_proxy.wire.version import VERSION

_READ_AT_ONCE = 500

_CACHED_NAME_CHARS = 256
"""Headers of longer names are not cached: a resource's URI can have a megabyte."""

HeaderParameters = dict[tuple[str, ...], str]
"""The header that repeats an argument, by the argument's path."""

CLIENT_INFO = Implementation(name="mcp-tools-proxy", version=VERSION)


class ServerDispatcher(Dispatcher[TransportContext], Protocol):
    """A transport's interface for a connection, in addition to that for the SDK's session."""

    @property
    def transport(self) -> Transport:
        """The transport in use; never the configured choice HTTP."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the connection is lost for good."""
        ...

    async def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        relay: Relay | None,
        /,
    ) -> dict[str, Any]:
        """Send one request and return its result.

        ``relay`` receives the server's messages about the request. Raises JsonRpcError,
        ConnectionFailure, ResponseTooLarge.
        """
        ...

    def set_update_listener(self, listener: Callable[[str | None], None], /) -> None:
        """Call ``listener`` with the URI of each resource that the server reports as changed.

        None means any resource: notifications may have been missed.
        """
        ...

    async def wait_lost(self) -> str:
        """Wait until the connection is lost for good; return the reason."""
        ...


@asynccontextmanager
async def open_connection(
    dispatcher: ServerDispatcher,
    config: ServerConfig,
    on_list_changed: OnListChanged,
    *,
    probe: bool,
) -> AsyncIterator["McpConnection"]:
    """Negotiate over ``dispatcher`` and yield the connection.

    Raises JsonRpcError, ConnectionFailure, ResponseTooLarge.
    """
    session = ClientSession(
        dispatcher=dispatcher,
        client_info=CLIENT_INFO,
        read_timeout_seconds=_handshake_s(config),
        elicitation_callback=_decline,
        sampling_callback=_decline,
        list_roots_callback=_decline,
    )
    with first_cause():
        async with session, anyio.create_task_group() as tasks:
            await negotiate(
                session,
                partial(_discover, dispatcher),
                probe_timeout_s=probe_timeout_for(config.connect_timeout_s),
                probe=probe,
            )
            connection = McpConnection(dispatcher, session)
            if connection.modern:
                tasks.start_soon(_listen, session, connection.capabilities, on_list_changed)
            yield connection
            tasks.cancel_scope.cancel()


def _handshake_s(config: ServerConfig) -> float:
    is_process = config.transport is Transport.STDIO
    return config.connect_timeout_s + (config.start_timeout_s if is_process else 0.0)


async def _discover(dispatcher: ServerDispatcher, version: str) -> dict[str, Any]:
    """Send ``server/discover`` without the SDK's limit of 10 s. Raises MCPError."""
    method = "server/discover"
    result = await dispatcher.send_raw_request(
        method,
        {
            "_meta": {
                PROTOCOL_VERSION_META_KEY: version,
                CLIENT_INFO_META_KEY: CLIENT_INFO.model_dump(by_alias=True, exclude_none=True),
                CLIENT_CAPABILITIES_META_KEY: {},
            }
        },
        {
            "cancel_on_abandon": False,
            "headers": {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method},
        },
    )
    if isinstance(ttl := result.get("ttlMs"), int | float) and ttl < 0:
        result["ttlMs"] = 0  # would make the whole answer invalid
    return result


class McpConnection:
    """A Connection over a dispatcher and the SDK session that negotiated it."""

    def __init__(self, dispatcher: ServerDispatcher, session: ClientSession) -> None:
        if session.protocol_version is None or session.server_capabilities is None:
            raise ValueError("the session is negotiated")
        self._dispatcher = dispatcher
        self._session = session
        self.era = session.protocol_version
        self.modern = self.era in MODERN_PROTOCOL_VERSIONS
        self.capabilities: JsonObject = session.server_capabilities.model_dump(
            by_alias=True, mode="json", exclude_none=True
        )
        self.instructions = session.instructions
        self._headers = {MCP_PROTOCOL_VERSION_HEADER: self.era}
        self._envelope = {
            PROTOCOL_VERSION_META_KEY: self.era,
            CLIENT_INFO_META_KEY: CLIENT_INFO.model_dump(by_alias=True, exclude_none=True),
            CLIENT_CAPABILITIES_META_KEY: {},
        }
        self._header_parameters: dict[str, HeaderParameters] = {}
        """Arguments to repeat in HTTP headers (``x-mcp-header``), by tool."""
        self._adopted: Mapping[str, JsonObject] = {}
        """Tools whose header arguments are read at the first call.

        Reading all would take 1 s with 50 sessions and 5,000 tools.
        """

    def __repr__(self) -> str:
        return f"<McpConnection {self.transport.value} {self.era} ended={self._dispatcher.ended}>"

    @property
    def transport(self) -> Transport:
        """The transport in use."""
        return self._dispatcher.transport

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float,
        relay: Relay | None = None,
        call_headers: CallHeaders | None = None,
    ) -> Any:
        """Send one request and return its raw ``result``; see Connection."""
        headers = self._headers
        more = {} if relay is None else relay.meta(modern=self.modern)
        if self.modern:
            headers = self._modern_headers(method, params)
            more = {**self._envelope, **more}
        if call_headers is not None:
            headers = {**headers, **call_headers.of_request(modern=self.modern)}
        if more:
            params = {**params, "_meta": {**params.get("_meta", {}), **more}}
        try:
            async with asyncio.timeout(timeout_s) as timeout:
                if relay is None:
                    result = await self._dispatcher.exchange(method, params, headers, None)
                else:
                    with relay.attached(timeout, allows_requests=not self.modern):
                        result = await self._dispatcher.exchange(method, params, headers, relay)
        except ResultNotAnObject as fault:
            if method != "tools/call":
                raise
            return fault.value  # the tool ran, so its answer counts (F-19)
        if method == "tools/list" and self.modern:
            await self._read_listed(result.get("tools"))
        return result

    async def ping(self, *, timeout_s: float) -> None:
        """Send ``ping``, or ``server/discover`` in the modern era."""
        await self.request("server/discover" if self.modern else "ping", {}, timeout_s=timeout_s)

    async def sync_subscriptions(self, subscriptions: SubscribedResources) -> None:
        """Keep ``subscriptions`` subscribed, by requests or by a stream, depending on the era."""
        self._dispatcher.set_update_listener(subscriptions.on_updated)
        if self.modern:
            await sync_by_stream(self._session, subscriptions)
        else:
            await sync_by_requests(self, subscriptions)

    async def wait_lost(self) -> str:
        """Wait until the connection is lost for good; return the reason."""
        return await self._dispatcher.wait_lost()

    def _modern_headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {**self._headers, MCP_METHOD_HEADER: method}
        name_key = NAME_BEARING_METHODS.get(method)
        if name_key is not None and isinstance(name := params.get(name_key), str):
            headers[MCP_NAME_HEADER] = (
                _cached_header(name)
                if len(name) <= _CACHED_NAME_CHARS
                else encode_header_value(name)
            )
            if name in self._adopted:
                self._read_adopted(name)
            if method == "tools/call" and (found := self._header_parameters.get(name)):
                headers |= mcp_param_headers(found, params.get("arguments") or {})
        return headers

    def _read_adopted(self, name: str) -> None:
        if name not in self._header_parameters:
            schema = self._adopted[name].get("inputSchema")
            self._header_parameters[name] = _header_parameters(schema)

    def adopt_tools(self, tools: Mapping[str, JsonObject]) -> None:
        """Replace the tools with those listed on another connection; see Connection."""
        self._adopted = tools
        self._header_parameters.clear()

    async def _read_listed(self, tools: object) -> None:
        if not isinstance(tools, list):
            return
        for number, tool in enumerate(tools):
            if number % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
                continue
            if found := _header_parameters(tool.get("inputSchema")):
                self._header_parameters[name] = found
            else:
                self._header_parameters.pop(name, None)


@lru_cache(maxsize=1024)
def _cached_header(name: str) -> str:
    """Cached, because each call would need two regular expressions."""
    return encode_header_value(name)


def _header_parameters(schema: object) -> HeaderParameters:
    if not has_header_parameters(schema) or find_invalid_x_mcp_header(schema) is not None:
        return {}
    return x_mcp_header_map(schema)


async def _decline(context: object, params: object = None) -> ErrorData:
    """Decline a client request that reached the SDK's session.

    These callbacks only make the session declare the capabilities: the transports route client
    requests to the clients of calls. A server of the older eras learns the capabilities once, for
    all clients; its request is refused if the call's client lacks the capability.
    """
    return ErrorData(code=INVALID_REQUEST, message="the client cannot be asked")


async def _listen(
    session: ClientSession, capabilities: JsonObject, on_list_changed: OnListChanged
) -> None:
    """Keep the modern era's stream of list changes open, if the server announces any."""
    tools, prompts, resources = (
        isinstance(of := capabilities.get(kind), Mapping) and bool(of.get("listChanged"))
        for kind in ("tools", "prompts", "resources")
    )
    if not (tools or prompts or resources):
        return

    async def read_stream(opened: Callable[[], None]) -> bool:
        try:
            async with listen(
                session,
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
            ) as subscription:
                opened()
                async for _ in subscription:
                    pass  # the dispatcher has called on_list_changed already
        except MCPError as error:
            return error.code != METHOD_NOT_FOUND
        except (SubscriptionLost, TimeoutError):
            return True
        return True

    await keep_stream_open(read_stream, on_gap=on_list_changed)


SUBSCRIBE_TIMEOUT_S = 10.0

RETRY_S = 5.0
"""Pause before repeating an unanswered request for a subscription."""

COALESCE_S = 0.05
"""Time to collect changes for one new stream."""

_NOT_ACCEPTED = JsonRpcError(
    INVALID_PARAMS, "the server sends no updates for this resource; read it again instead"
)


async def sync_by_requests(connection: Connection, subscriptions: SubscribedResources) -> None:
    """Subscribe and unsubscribe by one request each (up to 2025-11-25), until cancelled."""
    missed = subscriptions.confirmed()
    subscribed: set[str] = set()
    while True:
        change, pause_s = subscriptions.changed, None
        for uri in subscriptions.uris - subscribed:
            try:
                await connection.request(
                    "resources/subscribe", {"uri": uri}, timeout_s=SUBSCRIBE_TIMEOUT_S
                )
            except JsonRpcError as refusal:
                subscriptions.record_answer(uri, refusal)
            except FAULTS:
                pause_s = RETRY_S
            else:
                subscribed.add(uri)
                subscriptions.record_answer(uri)
                subscriptions.notify(missed & {uri})
        for uri in subscribed - subscriptions.uris:
            subscribed.discard(uri)
            with suppress(*FAULTS):
                await connection.request(
                    "resources/unsubscribe", {"uri": uri}, timeout_s=SUBSCRIBE_TIMEOUT_S
                )
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await change.wait()


async def sync_by_stream(session: ClientSession, subscriptions: SubscribedResources) -> None:
    """Keep one stream of updates open (2026-07-28), replaced at each change; until cancelled.

    The next stream opens before the previous one closes, so that no update is missed.
    """
    missed = subscriptions.confirmed()
    async with anyio.create_task_group() as tasks:
        previous = anyio.CancelScope()
        while True:
            change = subscriptions.changed
            uris, scope, opened = sorted(subscriptions.uris), anyio.CancelScope(), anyio.Event()
            if uris:
                stream = _UpdateStream(session, subscriptions, uris, scope, opened.set)
                tasks.start_soon(stream.keep)
                with anyio.move_on_after(SUBSCRIBE_TIMEOUT_S):
                    await opened.wait()
                subscriptions.notify(missed.intersection(uris))
                missed = missed.difference(uris)
            previous.cancel()
            previous = scope
            await change.wait()
            await asyncio.sleep(COALESCE_S)


@dataclass(frozen=True, slots=True)
class _UpdateStream:
    """A stream of the updates of ``uris``; ``on_answer`` is called at the server's answer."""

    session: ClientSession
    subscriptions: SubscribedResources
    uris: list[str]
    scope: anyio.CancelScope
    on_answer: Callable[[], None]

    async def keep(self) -> None:
        with self.scope:
            await keep_stream_open(
                self._read_stream, on_gap=lambda: self.subscriptions.notify(self.uris)
            )

    async def _read_stream(self, opened: Callable[[], None]) -> bool:
        """Open the stream once and consume it; return False if the server does not support it.

        The transport, not this method, dispatches the updates.
        """
        try:
            async with listen(self.session, resource_subscriptions=self.uris) as subscription:
                accepted = subscription.honored.resource_subscriptions or ()
                for uri in self.uris:
                    self.subscriptions.record_answer(
                        uri, None if uri in accepted else _NOT_ACCEPTED
                    )
                opened()
                self.on_answer()
                async for _ in subscription:
                    pass
        except MCPError as error:
            refusal = from_mcp_error(error)
            if isinstance(refusal, JsonRpcError):
                for uri in self.uris:
                    self.subscriptions.record_answer(uri, refusal)
                self.on_answer()
            return error.code != METHOD_NOT_FOUND
        except (SubscriptionLost, TimeoutError):
            return True
        return True


@contextmanager
def first_cause() -> Iterator[None]:
    """Replace an exception group by the first, possibly nested exception in it."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
