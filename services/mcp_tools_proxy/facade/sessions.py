"""What lives as long as a session of the older eras: its log level, what it is told of."""

from collections.abc import Awaitable, Callable

from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.types import INVALID_PARAMS, EmptyResult, SetLevelRequestParams

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.facade.answers import protocol_error
from mcp_tools_proxy.facade.asked import Asked, Context
from mcp_tools_proxy.facade.client import LEVELS
from mcp_tools_proxy.facade.listening import MAX_RESOURCES
from mcp_tools_proxy.facade.telling import Recipient, Telling
from mcp_tools_proxy.facade.watching import Lists, Watching
from mcp_tools_proxy.gateway.subscriptions import Subscriptions

LEVEL = "level"
"""Where a connection's state has the least severe log line that its client wants."""

FOLLOWED = "followed"
"""Where it has how to stop following each resource that its client subscribed to."""


class Sessions:
    """Serves what clients of the older eras ask of their session."""

    def __init__(self, watching: Watching, subscriptions: Subscriptions, telling: Telling) -> None:
        self._watching = watching
        self._subscriptions = subscriptions
        self._telling = telling

    async def watch(self, context: Context, caller: Caller) -> None:
        """Tell a session of changes of its lists from now on, until it ends."""
        session = context.session
        try:
            seen = await self._watching.look(caller)
        except ProxyError:  # it is told what is wrong when it asks for a list
            seen = {}

        async def tell(changed: frozenset[Lists]) -> None:
            await _tell_changed(session, changed)

        _connection_of(context).exit_stack.callback(self._watching.join(caller, seen, tell))

    async def subscribe(self, asked: Asked, uri: str) -> EmptyResult:
        """Tell a session of updates of a resource, until it unsubscribes or ends. Raises MCPError.

        Subscribing twice is the same as once.
        """
        followed = _followed(asked.context)
        if uri in followed:
            return EmptyResult()
        if len(followed) >= MAX_RESOURCES:
            raise MCPError(
                INVALID_PARAMS, f"{MAX_RESOURCES} resources are followed; unsubscribe from one"
            )
        recipient: Recipient[str] = Recipient(_updates_of(asked.context.session))
        try:
            followed[uri] = await self._subscriptions.subscribe(
                asked.call(Kind.RESOURCE, uri, {}), lambda: self._telling.soon(recipient, [uri])
            )
        except ProxyError as error:
            raise protocol_error(error, asked.trace_id, modern=asked.modern) from None
        return EmptyResult()

    async def unsubscribe(self, asked: Asked, uri: str) -> EmptyResult:
        """Stop telling a session of a resource; one that it does not follow is no error."""
        stop = _followed(asked.context).pop(uri, None)
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


def _followed(context: Context) -> dict[str, Callable[[], None]]:
    """Give what a session follows; when the session ends, it follows nothing."""
    connection = _connection_of(context)
    followed: dict[str, Callable[[], None]] | None = connection.state.get(FOLLOWED)
    if followed is None:
        connection.state[FOLLOWED] = followed = {}
        connection.exit_stack.callback(_stop_all, followed)
    return followed


def _stop_all(followed: dict[str, Callable[[], None]]) -> None:
    for stop in followed.values():
        stop()
    followed.clear()


def _connection_of(context: Context) -> Connection:
    """Give what lives as long as the client's connection; the SDK shows no other way to it."""
    return context.session._connection  # noqa: SLF001
