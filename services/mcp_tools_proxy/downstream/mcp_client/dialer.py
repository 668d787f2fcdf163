"""Connections to servers: transports and eras in order, beginning with the last successful one.

Direct HTTP connections share a pool, and each proxy has another one.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import aiohttp
from anyio.abc import AsyncResource

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.networks import ANY_NETWORK, Proxy, ServerNetworks
from mcp_tools_proxy.domain.server import Isolation, ServerConfig, Transport
from mcp_tools_proxy.downstream.connection import (
    ConnectAttempt,
    Connection,
    ConnectionFailure,
    OnListChanged,
    ServerOutput,
    SessionAccess,
)
from mcp_tools_proxy.downstream.mcp_client.duplex import DuplexDispatcher, DuplexTransport
from mcp_tools_proxy.downstream.mcp_client.error_mapping import Ended, Refused, Unreachable
from mcp_tools_proxy.downstream.mcp_client.http_endpoint import redirect_refused
from mcp_tools_proxy.downstream.mcp_client.legacy_sse_transport import open_sse
from mcp_tools_proxy.downstream.mcp_client.mcp_connection import (
    ServerDispatcher,
    first_cause,
    open_connection,
)
from mcp_tools_proxy.downstream.mcp_client.stdio_process import StartPlaces, open_process
from mcp_tools_proxy.downstream.mcp_client.streamable_http import open_http
from mcp_tools_proxy.downstream.mcp_client.websocket import open_websocket
from mcp_tools_proxy.system.egress import CONNECT_S as CONNECT_PROXY_S
from mcp_tools_proxy.system.egress import checked_sockets, keepalive_sockets, session_options
from mcp_tools_proxy.system.websocket_client import websocket_client

_NOT_STREAMABLE = frozenset({400, 404, 405, 406, 415})


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A transport to try; without ``probe`` only the older eras are offered."""

    transport: Transport
    probe: bool = True


@dataclass(frozen=True, slots=True)
class _Ends:
    on_list_changed: OnListChanged
    access: SessionAccess | None
    output: ServerOutput
    attempt: ConnectAttempt | None


class Dialer(AsyncResource):
    """Dialer of servers over one pool of HTTP connections; ``dial`` is a Dial.

    Use it as an async context manager, or call ``aclose``. The attempt that worked for a server is
    tried first the next time, unless the server's configuration has changed.
    """

    def __init__(self, networks: ServerNetworks = ANY_NETWORK) -> None:
        self._networks = networks
        self._clients = HttpClients(networks)
        self._places = StartPlaces()
        self._worked: dict[str, tuple[ServerConfig, _Attempt]] = {}
        """By server: the successful attempt, and its configuration without values of callers."""
        self._ended: dict[str, tuple[ServerConfig, int]] = {}
        """By server: how often it ended the connection in every attempt."""

    def __repr__(self) -> str:
        return f"<Dialer knows {len(self._worked)} servers>"

    async def aclose(self) -> None:
        """Close every HTTP connection."""
        await self._clients.close()

    @asynccontextmanager
    async def dial(
        self,
        config: ServerConfig,
        on_list_changed: OnListChanged,
        access: SessionAccess | None = None,
        output: ServerOutput | None = None,
        attempt: ConnectAttempt | None = None,
    ) -> AsyncIterator[Connection]:
        """Connect and negotiate; see Dial."""
        ends = _Ends(on_list_changed, access, output or ServerOutput(), attempt)
        with first_cause():
            async with AsyncExitStack() as stack:
                yield await self._connect(stack, config, ends)

    async def _connect(
        self, stack: AsyncExitStack, config: ServerConfig, ends: _Ends
    ) -> Connection:
        """Enter the first attempt that works; raise the fault of the attempt that got furthest."""
        furthest: ConnectionFailure | None = None
        refused: set[Transport] = set()
        failures, attempts = self._attempts_for(config)
        for attempt in attempts:
            if attempt.transport in refused:
                continue
            try:
                connection = await stack.enter_async_context(self._open(config, attempt, ends))
            except ConnectionFailure as fault:
                if furthest is None and not _should_try_next(fault):
                    raise
                furthest = max(furthest or fault, fault, key=_progress_of)
                if not isinstance(fault, Ended):
                    refused.add(attempt.transport)
            else:
                self._worked[config.server_id] = (_same_for_all(config), attempt)
                return connection
        if not refused:
            self._ended[config.server_id] = (config, failures + 1)
        raise furthest or ConnectionFailure("none of the ways to connect to the server worked")

    def _attempts_for(self, config: ServerConfig) -> tuple[int, list[_Attempt]]:
        """Return how often the server ended every attempt, and the next attempts in order."""
        attempts = _attempts(config.transport)
        known, last = self._worked.pop(config.server_id, (None, None))
        if last is not None and known == _same_for_all(config):
            attempts = [last, *(other for other in attempts if other != last)]
        failed, failures = self._ended.pop(config.server_id, (None, 0))
        is_process = config.transport is Transport.STDIO and config.isolation is Isolation.SHARED
        if is_process and failed == config:  # a process that exits: one start at a time, not two
            attempts = [attempts[failures % len(attempts)]]
        return failures, attempts

    @asynccontextmanager
    async def _open(
        self,
        config: ServerConfig,
        attempt: _Attempt,
        ends: _Ends,
    ) -> AsyncIterator[Connection]:
        with first_cause():
            async with AsyncExitStack() as stack:
                dispatcher = await self._open_dispatcher(stack, config, attempt.transport, ends)
                changed = ends.on_list_changed
                opening = open_connection(dispatcher, config, changed, probe=attempt.probe)
                try:
                    connection = await stack.enter_async_context(opening)
                except ConnectionFailure as fault:
                    if isinstance(dispatcher, DuplexDispatcher) and dispatcher.ended:
                        raise Ended(await dispatcher.wait_lost()) from fault
                    raise
                yield connection

    async def _open_dispatcher(
        self,
        stack: AsyncExitStack,
        config: ServerConfig,
        transport: Transport,
        ends: _Ends,
    ) -> ServerDispatcher:
        duplex: DuplexTransport
        clients, access = self._clients, ends.access
        if config.isolation is not Isolation.SHARED:  # callers never share a connection
            clients = HttpClients(self._networks)
            stack.push_async_callback(clients.close)
        proxy = config.proxy
        match transport:
            case Transport.STDIO:
                duplex = await stack.enter_async_context(
                    open_process(config, ends.output, self._places, ends.attempt)
                )
            case Transport.SSE:
                duplex = await stack.enter_async_context(
                    open_sse(clients.of(proxy).http, config, access)
                )
            case Transport.WEBSOCKET:
                duplex = await stack.enter_async_context(
                    open_websocket(clients.of(proxy).websockets, config, access)
                )
            case _:
                return await stack.enter_async_context(
                    open_http(clients.of(proxy).http, config, ends.on_list_changed, access)
                )
        return DuplexDispatcher(
            duplex,
            config=config,
            transport=transport,
            on_list_changed=ends.on_list_changed,
            output=ends.output if transport is Transport.STDIO else None,
        )


def _same_for_all(config: ServerConfig) -> ServerConfig:
    return replace(config, args=(), env={}, cwd=None, sandbox=None, headers={})


def _attempts(transport: Transport) -> list[_Attempt]:
    """Return the attempts in order.

    The older eras get a separate attempt, because a server can exit at an unknown method.
    """
    match transport:
        case Transport.STREAMABLE_HTTP:
            return [_Attempt(transport)]
        case Transport.HTTP:
            return [_Attempt(Transport.STREAMABLE_HTTP), *_attempts(Transport.SSE)]
        case _:
            return [_Attempt(transport), _Attempt(transport, probe=False)]


def _progress_of(fault: ConnectionFailure) -> int:
    """Rank how far an attempt got: no connection, a refusal, or an exchange of messages."""
    match fault:
        case Unreachable():
            return 0
        case Refused() if fault.status in _NOT_STREAMABLE:
            return 1
        case Refused():
            return 2
        case _:
            return 3


def _should_try_next(fault: ConnectionFailure) -> bool:
    return isinstance(fault, Ended) or (
        isinstance(fault, Refused) and fault.status in _NOT_STREAMABLE
    )


CONNECT_S = 5.0
"""Time-out of one connect: a vanished host never refuses the connection."""

_KEEP_ALIVE_S = 4.0  # uvicorn closes an idle connection after 5: reuse would lose a request
_DNS_CACHE_S = 60


class HttpClients:
    """HTTP clients, opened at their first use, since they belong to the event loop."""

    def __init__(
        self, networks: ServerNetworks = ANY_NETWORK, *, connect_s: float | None = None
    ) -> None:
        """Create the clients without opening them. Servers must be in ``networks``."""
        self._networks = networks
        limit_s = CONNECT_S if connect_s is None else connect_s
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=limit_s)
        self._opened: dict[Proxy | None, _Clients] = {}

    def __repr__(self) -> str:
        return f"<HttpClients open={len(self._opened)}>"

    def of(self, proxy: Proxy | None) -> "_Clients":
        """Return the clients whose requests go through a proxy, or directly."""
        if proxy not in self._opened:
            self._opened[proxy] = self._open(proxy)
        return self._opened[proxy]

    async def close(self) -> None:
        """Close every connection."""
        opened, self._opened = self._opened, {}
        for clients in opened.values():
            await clients.websockets.close()
            await clients.http.close()
            await clients.connector.close()

    def _open(self, proxy: Proxy | None) -> "_Clients":
        networks, timeout, options = self._networks, self._timeout, {}
        if proxy is not None:
            options = session_options(
                proxy.url, networks.allows, allows_unresolved=not networks.networks
            )
            timeout = aiohttp.ClientTimeout(
                total=None, connect=CONNECT_PROXY_S, sock_connect=timeout.sock_connect
            )
            # a proxy from the environment can be anywhere; one in mcp.json must be in these
            # networks
            networks = networks if proxy.is_own else ANY_NETWORK
        connector = aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=_KEEP_ALIVE_S,
            ttl_dns_cache=_DNS_CACHE_S,
            socket_factory=checked_sockets(networks.allows, keepalive_sockets()),
        )
        return _Clients(
            connector=connector,
            http=aiohttp.ClientSession(
                connector=connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
                **options,
            ),
            websockets=websocket_client(
                connector, _redirected, timeout=timeout, owns_connector=False, options=options
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clients:
    connector: aiohttp.TCPConnector
    http: aiohttp.ClientSession
    websockets: aiohttp.ClientSession


def _redirected(response: aiohttp.ClientResponse) -> Refused:
    return redirect_refused(response, response.url)
