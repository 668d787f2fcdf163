"""What lives as long as a session of the older eras: its log level, what it is told of."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.types import INVALID_PARAMS, EmptyResult, SetLevelRequestParams

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.subscriptions import Subscriptions
from mcp_tools_proxy.mcp_server.clients import LEVELS
from mcp_tools_proxy.mcp_server.notify.delivery import Delivery, Subscriber
from mcp_tools_proxy.mcp_server.notify.list_changes import ListChangeMonitor, ListKind, ListVersions
from mcp_tools_proxy.mcp_server.notify.listen_streams import MAX_RESOURCES
from mcp_tools_proxy.mcp_server.request import Context, McpRequest
from mcp_tools_proxy.mcp_server.results import protocol_error

LEVEL = "level"
"""Where a connection's state has the least severe log line that its client wants."""

SUBSCRIPTIONS = "followed"
"""Where it has its ``_SessionSubscriptions``."""

WATCHED = "watched"
"""Where it has whether it is told of changes of its lists."""


@dataclass(slots=True)
class _SessionSubscriptions:
    """What one session follows: how to stop it, by URI, and how many more are being asked for."""

    stops: dict[str, Callable[[], None]] = field(default_factory=dict)
    pending: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it may follow no more."""
        return len(self.stops) + self.pending >= MAX_RESOURCES

    def stop_all(self) -> None:
        """Follow nothing any more."""
        for stop in self.stops.values():
            stop()
        self.stops.clear()


class SessionState:
    """Serves what clients of the older eras ask of their session."""

    def __init__(
        self, list_changes: ListChangeMonitor, subscriptions: Subscriptions, delivery: Delivery
    ) -> None:
        self._list_changes = list_changes
        self._subscriptions = subscriptions
        self._delivery = delivery

    async def watch(self, context: Context, caller: Caller) -> None:
        """Tell a session of changes of its lists from now on, until it ends.

        Once is enough: a client may say as often as it likes that it is ready.
        """
        session, connection = context.session, _connection_of(context)
        if connection.state.get(WATCHED):
            return
        connection.state[WATCHED] = True
        try:
            versions = await self._list_changes.snapshot(caller)
        except ProxyError:  # it is told what is wrong when it asks for a list
            versions = ListVersions()

        async def send(changed: frozenset[ListKind]) -> None:
            await _send_list_changed(session, changed)

        connection.exit_stack.callback(self._list_changes.subscribe(caller, versions, send))

    async def subscribe(self, context: Context, request: McpRequest, uri: str) -> EmptyResult:
        """Tell a session of updates of a resource, until it unsubscribes or ends. Raises MCPError.

        Subscribing twice is the same as once.
        """
        followed = _subscriptions_of(context)
        if uri in followed.stops:
            return EmptyResult()
        if followed.is_full:
            raise MCPError(
                INVALID_PARAMS, f"{MAX_RESOURCES} resources are followed; unsubscribe from one"
            )
        subscriber: Subscriber[str] = Subscriber(_send_updates_to(context.session))
        followed.pending += 1
        try:
            stop = await self._subscriptions.subscribe(
                request.to_call(Kind.RESOURCE, uri, {}),
                lambda: self._delivery.enqueue(subscriber, [uri]),
            )
        except ProxyError as error:
            raise protocol_error(error, request.trace_id, modern=request.modern) from None
        finally:
            followed.pending -= 1
        if uri in followed.stops:  # it was asked for twice at once
            stop()
        else:
            followed.stops[uri] = stop
        return EmptyResult()

    async def unsubscribe(self, context: Context, uri: str) -> EmptyResult:
        """Stop telling a session of a resource; one that it does not follow is no error."""
        stop = _subscriptions_of(context).stops.pop(uri, None)
        if stop is not None:
            stop()
        return EmptyResult()


def level_of(context: Context) -> str | None:
    """Give what a session wants of log lines: all, until it says otherwise."""
    level = _connection_of(context).state.get(LEVEL, LEVELS[0])
    return level if isinstance(level, str) else None


async def set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
    """Take what a session wants of log lines."""
    _connection_of(context).state[LEVEL] = params.level
    return EmptyResult()


def _send_updates_to(session: ServerSession) -> Callable[[frozenset[str]], Awaitable[None]]:
    async def send(uris: frozenset[str]) -> None:
        for uri in uris:
            await session.send_resource_updated(uri)

    return send


async def _send_list_changed(session: ServerSession, changed: frozenset[ListKind]) -> None:
    if ListKind.TOOLS in changed:
        await session.send_tool_list_changed()
    if ListKind.PROMPTS in changed:
        await session.send_prompt_list_changed()
    if ListKind.RESOURCES in changed:
        await session.send_resource_list_changed()


def _subscriptions_of(context: Context) -> _SessionSubscriptions:
    """Give what a session follows; when the session ends, it follows nothing."""
    connection = _connection_of(context)
    followed: _SessionSubscriptions | None = connection.state.get(SUBSCRIPTIONS)
    if followed is None:
        connection.state[SUBSCRIPTIONS] = followed = _SessionSubscriptions()
        connection.exit_stack.callback(followed.stop_all)
    return followed


def _connection_of(context: Context) -> Connection:
    """Give what lives as long as the client's connection; the SDK shows no other way to it."""
    return context.session._connection  # noqa: SLF001
