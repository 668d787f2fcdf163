"""The newer era's streams of changes: ``subscriptions/listen`` (MCP 2026-07-28)."""

from collections.abc import Callable
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.facade.answers import protocol_error
from mcp_tools_proxy.facade.watching import Lists, Seen, Watching
from mcp_tools_proxy.policy.trace import choose_trace_id

MAX_WAITING_EVENTS = 64
"""How many events a stream holds for a client that does not read; then it is ended."""

_EVENTS: dict[Lists, ServerEvent] = {
    Lists.TOOLS: ToolsListChanged(),
    Lists.PROMPTS: PromptsListChanged(),
    Lists.RESOURCES: ResourcesListChanged(),
}


class _OwnChanges:
    """The SDK's bus for one stream: the changes of what its caller sees."""

    def __init__(self, watching: Watching, caller: Caller, seen: Seen) -> None:
        self._watching = watching
        self._caller = caller
        self._seen = seen

    async def publish(self, event: ServerEvent) -> None:
        """Nothing is published here: changes come from the registry."""
        raise NotImplementedError

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have ``listener`` told of changes, until what is returned is called."""

        async def tell(changed: frozenset[Lists]) -> None:
            for kind in Lists:
                if kind in changed:
                    listener(_EVENTS[kind])

        return self._watching.join(self._caller, self._seen, tell)


class Listening:
    """The open streams; at most ``max_streams``."""

    def __init__(self, watching: Watching, *, max_streams: int) -> None:
        self._watching = watching
        self._max_streams = max_streams
        self._open: set[ListenHandler] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self,
        context: ServerRequestContext[Any, Any],
        params: SubscriptionsListenRequestParams,
        caller: Caller,
    ) -> SubscriptionsListenResult:
        """Serve one stream until the client leaves or ``close`` ends it. Raises MCPError."""
        if len(self._open) >= self._max_streams:
            raise MCPError(INTERNAL_ERROR, f"{self._max_streams} streams are open; try again later")
        try:
            seen = await self._watching.look(caller)
        except ProxyError as error:
            raise protocol_error(error, choose_trace_id(), modern=True) from None
        bus = _OwnChanges(self._watching, caller, seen)
        handler = ListenHandler(bus, max_subscriptions=1, max_buffered_events=MAX_WAITING_EVENTS)
        self._open.add(handler)
        try:
            return await handler(context, params)
        finally:
            self._open.discard(handler)

    def close(self) -> None:
        """End every stream in the protocol's own way."""
        for handler in self._open:
            handler.close()
