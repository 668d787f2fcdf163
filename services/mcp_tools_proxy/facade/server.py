"""The one MCP server of the facade: the SDK's, with our methods under it, for both eras."""

from importlib.metadata import version
from typing import Any

import structlog
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    SERVER_INFO_META_KEY,
    CompletionsCapability,
    EmptyResult,
    LoggingCapability,
    NotificationParams,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    SetLevelRequestParams,
    ToolsCapability,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mcp_tools_proxy.domain.component import JsonObject
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.facade.answers import Json
from mcp_tools_proxy.facade.asked import Asked, CallerOf, Context
from mcp_tools_proxy.facade.client import LEVELS
from mcp_tools_proxy.facade.listening import Listening
from mcp_tools_proxy.facade.methods import CACHED, Methods
from mcp_tools_proxy.facade.watching import Lists, Watching
from mcp_tools_proxy.gateway.execute import Executor
from mcp_tools_proxy.gateway.registry import RegistryHolder

LEVEL = "level"
"""Where a connection's state has the least severe log line that its client wants."""

DISCOVER_TTL_MS = 3_600_000
"""How long what the gateway can do may be kept: it is the same for all, and fixed."""

log = structlog.get_logger()


class FacadeServer(Server[Any]):
    """Serves what a caller may list and use; ``caller_of`` tells who sent a request.

    The SDK does handshakes, eras, sessions and framing. Our methods run as its one middleware, on
    the request as it came: what the SDK's models do not know would be lost in them.
    """

    def __init__(
        self,
        name: str,
        *,
        registry: RegistryHolder,
        executor: Executor,
        caller_of: CallerOf,
        max_streams: int,
    ) -> None:
        """``max_streams`` bounds the streams of changes that clients hold open."""
        self.watching = Watching(registry)
        self.listening = Listening(self.watching, max_streams=max_streams)

        def input_schema(tool: str) -> JsonObject | None:
            return registry.current.input_schema(tool)

        super().__init__(
            name,
            version=version("mcp-tools-proxy"),
            get_tool_input_schema=input_schema,
            cache_hints={"server/discover": CacheHint(ttl_ms=DISCOVER_TTL_MS, scope="public")},
            on_subscriptions_listen=lambda context, params: self.listening.listen(
                context, params, caller_of(context)
            ),
        )
        self._methods = Methods(registry, executor)
        self._caller_of = caller_of
        self.middleware = [self._answer]  # not the SDK's tracing: telemetry is ours
        self.add_request_handler("logging/setLevel", SetLevelRequestParams, _set_level)
        self.add_notification_handler(
            "notifications/initialized", NotificationParams, self._watch_session
        )

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Tell what the gateway can do: all of it, whatever is listed now."""
        return ServerCapabilities(
            tools=ToolsCapability(list_changed=True),
            prompts=PromptsCapability(list_changed=True),
            resources=ResourcesCapability(list_changed=True),
            completions=CompletionsCapability(),
            logging=None if protocol_version in MODERN_PROTOCOL_VERSIONS else LoggingCapability(),
        )

    @property
    def options(self) -> InitializationOptions:
        """What a connection of its own is begun with."""
        return self.create_initialization_options()

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer our own methods, and leave the SDK the others."""
        if ctx.request_id is None or ctx.method not in self._methods:
            return await call_next(ctx)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not modern and ctx.session.client_params is None:
            raise MCPError(INVALID_REQUEST, "send initialize first")
        asked = Asked.read(ctx, self._caller_of(ctx), _level_of(ctx))
        try:
            result = await self._methods.answer(asked)
        except MCPError:
            raise
        except Exception:
            log.exception("facade.crashed", method=asked.method, trace_id=asked.trace_id)
            raise MCPError(
                INTERNAL_ERROR, "internal error; the log has the trace_id", asked.trace_id
            ) from None
        return self._enveloped(result, asked.method) if modern else result

    def _enveloped(self, result: Json, method: str) -> Json:
        """Add what MCP 2026-07-28 wants of every result. Lists depend on who asks."""
        meta = result.get("_meta") or {}
        if result.get("resultType") is None:
            result["resultType"] = "complete"
            if method in CACHED:
                result |= {"ttlMs": 0, "cacheScope": "private"}
        return result | {"_meta": {SERVER_INFO_META_KEY: self.server_info_stamp, **meta}}

    async def _watch_session(self, context: Context, _params: NotificationParams) -> None:
        """Tell a session of the older eras of changes from now on, until it ends."""
        caller, session = self._caller_of(context), context.session
        try:
            seen = await self.watching.look(caller)
        except ProxyError:  # it is told what is wrong when it asks for a list
            seen = {}

        async def tell(changed: frozenset[Lists]) -> None:
            await _tell_session(session, changed)

        _connection_of(context).exit_stack.callback(self.watching.join(caller, seen, tell))


async def _tell_session(session: ServerSession, changed: frozenset[Lists]) -> None:
    if Lists.TOOLS in changed:
        await session.send_tool_list_changed()
    if Lists.PROMPTS in changed:
        await session.send_prompt_list_changed()
    if Lists.RESOURCES in changed:
        await session.send_resource_list_changed()


async def _set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
    _connection_of(context).state[LEVEL] = params.level
    return EmptyResult()


def _level_of(context: Context) -> str | None:
    """Give what a session of the older eras wants of log lines: all, until it says otherwise."""
    level = _connection_of(context).state.get(LEVEL, LEVELS[0])
    return level if isinstance(level, str) else None


def _connection_of(context: Context) -> Connection:
    """Give what lives as long as the client's connection; the SDK shows no other way to it."""
    return context.session._connection  # noqa: SLF001
