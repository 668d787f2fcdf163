"""One live MCP conversation with one server, as everything above the transports sees it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.relay.call_relay import CallRelay
from mcp_tools_proxy.downstream.subscriptions.resource_subscriptions import ResourceSubscriptions


class JsonRpcError(Exception):
    """The server answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class ConnectionFailure(Exception):
    """A request got no usable answer: refused, cut off, garbage; ``reason`` names no secret.

    ``for_operators`` may say more than callers are told, such as an address of the inner network.

    Only the request that meets it is affected; whether the link is lost as well, ``wait_lost``
    tells. ``sent`` is False only where surely nothing of the request reached the server.
    """

    def __init__(self, reason: str, *, for_operators: str | None = None, sent: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.for_operators = for_operators or reason
        self.sent = sent


class ResultNotAnObject(ConnectionFailure):
    """The ``result`` of an answer is JSON, but no object; ``value`` is what it is."""

    def __init__(self, value: object) -> None:
        super().__init__("the server's answer has neither a result object nor an error")
        self.value = value


class ResponseTooLarge(Exception):
    """The server's answer is over what is read of one; the rest was not read."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"an answer is over {max_bytes} bytes")
        self.max_bytes = max_bytes


class Connection(Protocol):
    """A negotiated conversation; any number of tasks may send requests at once."""

    @property
    def era(self) -> str:
        """The protocol version agreed on, as ``2025-11-25``."""
        ...

    @property
    def transport(self) -> Transport:
        """What the server turned out to speak; never HTTP."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """The server's capabilities: ``{"tools": {"listChanged": true}, "prompts": {}, …}``."""
        ...

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float,
        relay: CallRelay | None = None,
    ) -> Any:
        """Send one request and return its raw ``result``: an object, of ``tools/call`` any JSON.

        ``params`` may hold ``_meta``; what the era asks for is added. ``relay`` is told and asked
        what the server says and asks meanwhile; while it is asked, the time-out does not run.
        Raises JsonRpcError, ConnectionFailure, ResponseTooLarge, TimeoutError. Cancelling it, or
        its time-out, cancels it at the server.
        """
        ...

    async def ping(self, *, timeout_s: float) -> None:
        """Ask for a sign of life, in the way of the era. Raises like ``request``."""
        ...

    async def sync_subscriptions(self, subscriptions: ResourceSubscriptions) -> None:
        """Subscribe to what is watched, and tell of its updates, until cancelled."""
        ...

    async def wait_lost(self) -> str:
        """Wait until the link is lost for good, and say why."""
        ...


OnListChanged = Callable[[], None]
"""Called on the event loop when the server says that one of its lists changed."""

Dial = Callable[[ServerConfig, OnListChanged], AbstractAsyncContextManager[Connection]]
"""Connects and negotiates on entering, closes everything on leaving, its process included.

Entering and leaving happen in one task. Entering raises ConnectionFailure, JsonRpcError; it is not
bounded in time by itself. Leaving takes at most a few seconds, however the server behaves.
"""
