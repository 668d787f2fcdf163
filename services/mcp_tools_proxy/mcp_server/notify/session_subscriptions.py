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
from mcp_tools_proxy.mcp_server.notify.delivery import Delivery, Recipient
from mcp_tools_proxy.mcp_server.notify.list_changes import ListChangeMonitor, Lists, Seen
from mcp_tools_proxy.mcp_server.notify.listen_streams import MAX_RESOURCES
from mcp_tools_proxy.mcp_server.request import Context, McpRequest
from mcp_tools_proxy.mcp_server.results import protocol_error

LEVEL = "level"
"""Where a connection's state has the least severe log line that its client wants."""

FOLLOWED = "followed"
"""Where it has its ``_Followed``."""

WATCHED = "watched"
"""Where it has whether it is told of changes of its lists."""


@dataclass(slots=True)
class _Followed:
    """What one session follows: how to stop it, by URI, and how many more are being asked for."""

    stops: dict[str, Callable[[], None]] = field(default_factory=dict)
    asking: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it may follow no more."""
        return len(self.stops) + self.asking >= MAX_RESOURCES

    def stop_all(self) -> None:
        """Follow nothing any more."""
        for stop in self.stops.values():
            stop()
        self.stops.clear()


class Sessions:
    """Serves what clients of the older eras ask of their session."""

    def __init__(
        self, watching: ListChangeMonitor, subscriptions: Subscriptions, telling: Delivery
    ) -> None:
        self._watching = watching
        self._subscriptions = subscriptions
        self._telling = telling

    async def watch(self, context: Context, caller: Caller) -> None:
        """Tell a session of changes of its lists from now on, until it ends.

        Once is enough: a client may say as often as it likes that it is ready.
        """
        session, connection = context.session, _connection_of(context)
        if connection.state.get(WATCHED):
            return
        connection.state[WATCHED] = True
        try:
            seen = await self._watching.look(caller)
        except ProxyError:  # it is told what is wrong when it asks for a list
            seen = Seen()

        async def tell(changed: frozenset[Lists]) -> None:
            await _tell_changed(session, changed)

        connection.exit_stack.callback(self._watching.join(caller, seen, tell))

    async def subscribe(self, context: Context, asked: McpRequest, uri: str) -> EmptyResult:
        """Tell a session of updates of a resource, until it unsubscribes or ends. Raises MCPError.

        Subscribing twice is the same as once.
        """
        followed = _followed(context)
        if uri in followed.stops:
            return EmptyResult()
        if followed.is_full:
            raise MCPError(
                INVALID_PARAMS, f"{MAX_RESOURCES} resources are followed; unsubscribe from one"
            )
        recipient: Recipient[str] = Recipient(_updates_of(context.session))
        followed.asking += 1
        try:
            stop = await self._subscriptions.subscribe(
                asked.call(Kind.RESOURCE, uri, {}), lambda: self._telling.soon(recipient, [uri])
            )
        except ProxyError as error:
            raise protocol_error(error, asked.trace_id, modern=asked.modern) from None
        finally:
            followed.asking -= 1
        if uri in followed.stops:  # it was asked for twice at once
            stop()
        else:
            followed.stops[uri] = stop
        return EmptyResult()

    async def unsubscribe(self, context: Context, uri: str) -> EmptyResult:
        """Stop telling a session of a resource; one that it does not follow is no error."""
        stop = _followed(context).stops.pop(uri, None)
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


def _updates_of(session: ServerSession) -> Callable[[frozenset[str]], Awaitable[None]]:
    async def tell(uris: frozenset[str]) -> None:
        for uri in uris:
            await session.send_resource_updated(uri)

    return tell


async def _tell_changed(session: ServerSession, changed: frozenset[Lists]) -> None:
    if Lists.TOOLS in changed:
        await session.send_tool_list_changed()
    if Lists.PROMPTS in changed:
        await session.send_prompt_list_changed()
    if Lists.RESOURCES in changed:
        await session.send_resource_list_changed()


def _followed(context: Context) -> _Followed:
    """Give what a session follows; when the session ends, it follows nothing."""
    connection = _connection_of(context)
    followed: _Followed | None = connection.state.get(FOLLOWED)
    if followed is None:
        connection.state[FOLLOWED] = followed = _Followed()
        connection.exit_stack.callback(followed.stop_all)
    return followed


def _connection_of(context: Context) -> Connection:
    """Give what lives as long as the client's connection; the SDK shows no other way to it."""
    return context.session._connection  # noqa: SLF001
