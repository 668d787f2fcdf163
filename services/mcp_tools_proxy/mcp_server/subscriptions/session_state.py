"""State of a session of the older eras: its log level and its subscriptions.

It is kept in the SDK's connection state, and so ends with the session.
"""

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
from mcp_tools_proxy.mcp_server.request import Context, McpRequest
from mcp_tools_proxy.mcp_server.results import protocol_error
from mcp_tools_proxy.mcp_server.subscriptions.delivery import Delivery, Subscriber
from mcp_tools_proxy.mcp_server.subscriptions.list_changes import (
    ListChangeMonitor,
    ListKind,
    ListVersions,
)
from mcp_tools_proxy.mcp_server.subscriptions.listen_streams import MAX_RESOURCES

LEVEL = "level"
"""Key in the connection's state: lowest severity of the log messages that the client wants."""

SUBSCRIPTIONS = "followed"
"""Key in the connection's state: its ``_SessionSubscriptions``."""

LIST_CHANGES = "list_changes"
"""Key in the connection's state: True once the session gets list changes."""


@dataclass(slots=True)
class _SessionSubscriptions:
    """The resource subscriptions of one session, and how many more are being confirmed."""

    cancel_by_uri: dict[str, Callable[[], None]] = field(default_factory=dict)
    pending: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the session may subscribe to no more resources."""
        return len(self.cancel_by_uri) + self.pending >= MAX_RESOURCES

    def cancel_all(self) -> None:
        """Cancel every subscription."""
        for cancel in self.cancel_by_uri.values():
            cancel()
        self.cancel_by_uri.clear()


class SessionState:
    """Handles the requests of older eras that change the state of a session."""

    def __init__(
        self, list_changes: ListChangeMonitor, subscriptions: Subscriptions, delivery: Delivery
    ) -> None:
        self._list_changes = list_changes
        self._subscriptions = subscriptions
        self._delivery = delivery

    async def subscribe_to_lists(self, context: Context, caller: Caller) -> None:
        """Send list changes to a session from now on, until it ends.

        Repeated calls do nothing: a client may send ``notifications/initialized`` many times.
        """
        session, connection = context.session, _connection_of(context)
        if connection.state.get(LIST_CHANGES):
            return
        connection.state[LIST_CHANGES] = True
        try:
            versions = await self._list_changes.snapshot(caller)
        except ProxyError:  # the client gets this error when it requests a list
            versions = ListVersions()

        async def send(changed: frozenset[ListKind]) -> None:
            await _send_list_changed(session, changed)

        connection.exit_stack.callback(self._list_changes.subscribe(caller, versions, send))

    async def subscribe(self, context: Context, request: McpRequest, uri: str) -> EmptyResult:
        """Send updates of a resource to a session until it unsubscribes or ends. Raises MCPError.

        Subscribing twice is the same as once.
        """
        subscriptions = _subscriptions_of(context)
        if uri in subscriptions.cancel_by_uri:
            return EmptyResult()
        if subscriptions.is_full:
            raise MCPError(
                INVALID_PARAMS, f"{MAX_RESOURCES} resources are followed; unsubscribe from one"
            )
        subscriber: Subscriber[str] = Subscriber(_send_updates_to(context.session))
        subscriptions.pending += 1
        try:
            unsubscribe = await self._subscriptions.subscribe(
                request.to_call(Kind.RESOURCE, uri, {}),
                lambda: self._delivery.enqueue(subscriber, [uri]),
            )
        except ProxyError as error:
            raise protocol_error(error, request.trace_id, modern=request.modern) from None
        finally:
            subscriptions.pending -= 1

        def cancel() -> None:
            unsubscribe()
            subscriber.close()

        if uri in subscriptions.cancel_by_uri:  # two such requests ran at the same time
            cancel()
        else:
            subscriptions.cancel_by_uri[uri] = cancel
        return EmptyResult()

    async def unsubscribe(self, context: Context, uri: str) -> EmptyResult:
        """Cancel a subscription; one that does not exist is no error."""
        cancel = _subscriptions_of(context).cancel_by_uri.pop(uri, None)
        if cancel is not None:
            cancel()
        return EmptyResult()


def log_level_of(context: Context) -> str | None:
    """Return the log level of a session: the lowest, until the client sets another one."""
    level = _connection_of(context).state.get(LEVEL, LEVELS[0])
    return level if isinstance(level, str) else None


async def set_log_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
    """Set the log level of a session (``logging/setLevel``)."""
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
    """Return the subscriptions of a session; created on first use, cancelled when it ends."""
    connection = _connection_of(context)
    subscriptions: _SessionSubscriptions | None = connection.state.get(SUBSCRIPTIONS)
    if subscriptions is None:
        connection.state[SUBSCRIPTIONS] = subscriptions = _SessionSubscriptions()
        connection.exit_stack.callback(subscriptions.cancel_all)
    return subscriptions


def _connection_of(context: Context) -> Connection:
    """Return the SDK's state of the client's connection, which has no public accessor."""
    return context.session._connection  # noqa: SLF001
