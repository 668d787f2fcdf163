import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.connection import (
    CallHeaders,
    ConnectAttempt,
    ConnectionFailure,
    OnListChanged,
    Relay,
    ServerOutput,
    SessionAccess,
    SubscribedResources,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError

Answer = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

DONE: dict[str, Any] = {"content": [{"type": "text", "text": "done"}]}

FIELDS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def tool(name: str, **fields: object) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


async def hang(params: Mapping[str, Any] = {}) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


class FakeServer:
    """A scripted server that records requests. ``lists`` has items by method, ``answers`` handlers
    by method; each of ``refusals`` fails one dial."""

    def __init__(self, *tools: dict[str, Any]) -> None:
        self.capabilities: JsonObject = {"tools": {"listChanged": True}}
        self.lists: dict[str, list[Any]] = {"tools/list": list(tools)}
        self.answers: dict[str, Answer] = {}
        self.refusals: list[Exception] = []
        self.refuses_with: Exception | None = None
        self.dial_takes_s = 0.0
        self.closing_takes_s = 0.0
        self.ping: Callable[[], Awaitable[None]] = self._pong
        self.dials: list[float] = []
        self.requests: list[tuple[str, Mapping[str, Any]]] = []
        self.timeouts: list[float] = []
        self.pings = 0
        self.cancelled = 0
        self.links: list[FakeConnection] = []
        self.closed = 0

    @asynccontextmanager
    async def dial(
        self,
        config: ServerConfig,
        on_list_changed: OnListChanged,
        access: SessionAccess | None = None,
        output: ServerOutput | None = None,
        attempt: ConnectAttempt | None = None,
    ) -> AsyncIterator["FakeConnection"]:
        self.dials.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.dial_takes_s)
        if self.refuses_with is not None:
            raise self.refuses_with
        if self.refusals:
            raise self.refusals.pop(0)
        link = FakeConnection(self, on_list_changed)
        self.links.append(link)
        try:
            yield link
        finally:
            await asyncio.sleep(self.closing_takes_s)
            self.closed += 1

    @property
    def link(self) -> "FakeConnection":
        return self.links[-1]

    def calls(self, method: str = "tools/call") -> list[Mapping[str, Any]]:
        return [params for requested, params in self.requests if requested == method]

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append((method, params))
        if method in self.answers:
            return await self.answers[method](params)
        if method in FIELDS:
            return {FIELDS[method]: self.lists.get(method, [])}
        return {"content": [{"type": "text", "text": "done"}]}

    async def _pong(self) -> None:
        return


class FakeConnection:
    era = "2025-11-25"
    transport = Transport.STREAMABLE_HTTP
    instructions: str | None = None

    def __init__(self, server: FakeServer, on_list_changed: OnListChanged) -> None:
        self.capabilities = server.capabilities
        self.lists_changed = on_list_changed
        self.adopted: list[object] = []
        self._server = server
        self._down: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def lose(self, reason: str = "the process ended") -> None:
        """Lose the connection permanently, with all requests in flight."""
        if not self._down.done():
            self._down.set_result(reason)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float,
        relay: Relay | None = None,
        call_headers: CallHeaders | None = None,
    ) -> dict[str, Any]:
        self._server.timeouts.append(timeout_s)
        if self._down.done():
            raise ConnectionFailure(self._down.result())
        try:
            answer = self._server.answer(method, params)
            return cast("dict[str, Any]", await self._within(answer, timeout_s))
        except asyncio.CancelledError:
            self._server.cancelled += 1
            raise

    def adopt_tools(self, tools: Mapping[str, JsonObject]) -> None:
        self.adopted = list(tools)

    async def ping(self, *, timeout_s: float) -> None:
        self._server.pings += 1
        if self._down.done():
            raise ConnectionFailure(self._down.result())
        await self._within(self._server.ping(), timeout_s)

    async def sync_subscriptions(self, subscriptions: SubscribedResources) -> None:
        await asyncio.Event().wait()

    async def wait_lost(self) -> str:
        return await asyncio.shield(self._down)

    async def _within(self, answer: Awaitable[Any], timeout_s: float) -> Any:
        async with asyncio.timeout(timeout_s):
            answering = asyncio.ensure_future(answer)
            try:
                await asyncio.wait({answering, self._down}, return_when="FIRST_COMPLETED")
                if answering.done():
                    return answering.result()
                raise ConnectionFailure(self._down.result())
            finally:
                answering.cancel()


def failing_with(error: Exception) -> Answer:
    async def fail(params: Mapping[str, Any]) -> dict[str, Any]:
        raise error

    return fail


def answering(result: dict[str, Any]) -> Answer:
    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        return result

    return answer


def after(seconds: float) -> Answer:
    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(seconds)
        return DONE

    return answer


def in_turn(*answers: Answer) -> Answer:
    """Answer each request with the next of ``answers``; repeat the last one."""
    left = list(answers)

    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        return await (left.pop(0) if len(left) > 1 else left[0])(params)

    return answer


METHOD_NOT_FOUND = JsonRpcError(-32601, "Method not found")
