"""Raw MCP clients, one for each carrier and era; they send messages unchanged."""

import asyncio
import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.mcp_endpoint import BOTH, ENVELOPE, LEGACY, MODERN, TENANT, Served
from tests.support.program import UNLIMITED
from tests.support.program_launch import Process, launch
from tests.support.raw_mcp_client import (
    CAPABILITIES,
    RawMcpClient,
    lines_of,
    messages_of,
    raw_client,
)
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.session import Session

LIST_CHANGES = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}


@dataclass(frozen=True)
class Exchange:
    """A sent request: the messages up to its response, and a way to cancel it."""

    id: object
    messages: AsyncIterator[Json]
    cancel: Callable[[], Awaitable[None]]


class McpClient(ABC):
    """A client of the gateway, independent of the carrier."""

    def __init__(self, era: str) -> None:
        self.era = era

    @abstractmethod
    async def request(self, method: str, params: Json | None = None) -> Json:
        """Send a request and return its response."""

    @abstractmethod
    def exchange(self, method: str, params: Json) -> AbstractAsyncContextManager[Exchange]:
        """Send a request; its exchange has every message up to its response."""

    @abstractmethod
    async def send(self, body: Json) -> None:
        """Send a notification, or the response to a request of the gateway."""

    @abstractmethod
    def notifications(self) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """Receive the notifications that a legacy client gets outside its requests."""

    @asynccontextmanager
    async def list_changes(self) -> AsyncIterator[AsyncIterator[Json]]:
        """Receive the notifications of changed lists, in the style of the client's era."""
        if self.era == LEGACY:
            async with self.notifications() as messages:
                yield messages
            return
        wanted = {"notifications": LIST_CHANGES}
        async with self.exchange("subscriptions/listen", wanted) as listening:
            await anext(listening.messages)  # acknowledges the subscription
            yield listening.messages

    async def result(self, method: str, params: Json | None = None) -> Json:
        """Return the result of a request that must succeed."""
        message = await self.request(method, params)
        assert "result" in message, message
        result: Json = message["result"]
        return result

    async def call(self, tool: str, arguments: Json | None = None, **params: Any) -> Json:
        return await self.result("tools/call", call_of(tool, arguments, **params))

    async def all_messages(self, tool: str, arguments: Json | None = None, **params: Any) -> Any:
        """Call a tool of ``s1``; return all messages, the response last."""
        async with self.exchange("tools/call", call_of(tool, arguments, **params)) as call:
            return [message async for message in call.messages]


def call_of(tool: str, arguments: Json | None = None, **params: Any) -> Json:
    return {"name": f"s1:{tool}", "arguments": arguments or {}, **params}


class HttpClient(McpClient):
    """A client over streamable HTTP: a POST for each message."""

    def __init__(self, served: Served, raw: RawMcpClient) -> None:
        super().__init__(raw.era)
        self._http = served.http
        self._raw = raw

    async def request(self, method: str, params: Json | None = None) -> Json:
        return await self._raw.request(method, params)

    @asynccontextmanager
    async def exchange(self, method: str, params: Json) -> AsyncIterator[Exchange]:
        """A modern client cancels by closing its connection."""
        body, headers = self._raw.build(method, params)
        received: asyncio.Queue[Json | None] = asyncio.Queue()

        async def read() -> None:
            try:
                async with self._http.stream(
                    "POST", "/mcp", json=body, headers=headers
                ) as response:
                    async for message in messages_of(response):
                        received.put_nowait(message)
            finally:
                received.put_nowait(None)

        async def cancel() -> None:
            if self.era == MODERN:
                reader.cancel()
            else:
                await self.send(cancelled(body["id"]))

        async def messages() -> AsyncGenerator[Json]:
            while (message := await received.get()) is not None:
                yield message

        async with asyncio.TaskGroup() as tasks, aclosing(messages()) as until_response:
            reader = tasks.create_task(read())
            yield Exchange(body["id"], until_response, cancel)
            reader.cancel()

    async def send(self, body: Json) -> None:
        await self._raw.notify(body)

    @asynccontextmanager
    async def notifications(self) -> AsyncIterator[AsyncIterator[Json]]:
        _, headers = self._raw.build("", {})
        async with (
            self._http.stream("GET", "/mcp", headers=headers) as response,
            aclosing(messages_of(response)) as messages,
        ):
            yield messages


class DuplexClient(McpClient):
    """A client over a carrier with one message stream in each direction, read by a Session."""

    def __init__(self, session: Session, capabilities: Json) -> None:
        super().__init__(session.era)
        self._session = session
        self._capabilities = capabilities
        self._next_id = 1000

    async def request(self, method: str, params: Json | None = None) -> Json:
        return await self._session.request(method, self._own_meta(params or {}))

    @asynccontextmanager
    async def exchange(self, method: str, params: Json) -> AsyncIterator[Exchange]:
        self._next_id += 1
        id_ = self._next_id
        await self.send({"id": id_, "method": method, "params": self._own_meta(params)})

        async def messages() -> AsyncGenerator[Json]:
            while True:
                message = await self._session.receive()
                yield message
                if message.get("id") == id_ and "method" not in message:
                    return

        async def cancel() -> None:
            await self.send(cancelled(id_))

        async with aclosing(messages()) as until_response:
            yield Exchange(id_, until_response, cancel)

    async def send(self, body: Json) -> None:
        await self._session.send({"jsonrpc": "2.0", **body})

    @asynccontextmanager
    async def notifications(self) -> AsyncIterator[AsyncIterator[Json]]:
        async def messages() -> AsyncGenerator[Json]:
            while True:
                yield await self._session.receive()

        async with aclosing(messages()) as endless:
            yield endless

    def _own_meta(self, params: Json) -> Json:
        if self.era == LEGACY:
            return params
        meta = {**ENVELOPE, CAPABILITIES: self._capabilities, **(params.get("_meta") or {})}
        return {**params, "_meta": meta}


def cancelled(request_id: object) -> Json:
    return {"method": "notifications/cancelled", "params": {"requestId": request_id}}


async def opened(session: Session, capabilities: Json) -> DuplexClient:
    """Return the client of a session, after the handshake if its era has one."""
    if session.era == LEGACY:
        await session.initialize(**capabilities)
    return DuplexClient(session, capabilities)


async def over_http(served: Served, era: str, capabilities: Json) -> HttpClient:
    return HttpClient(served, await raw_client(served, era, **capabilities))


async def over_connector(backend: Backend, era: str, capabilities: Json) -> DuplexClient:
    """Open a session over the backend's WebSocket."""
    return await opened(backend.session(era=era), capabilities)


@asynccontextmanager
async def over_sse(
    served: Served, era: str, capabilities: Json, *, caller: Mapping[str, str] = TENANT
) -> AsyncIterator[DuplexClient]:
    """Connect over HTTP+SSE: a GET receives messages, a POST sends each message."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def post(_: str, message: object) -> None:
        response = await served.http.post(await address, json=message, headers=caller)
        assert response.status_code == 202, response.text

    session = Session(None, era, post)

    async def read() -> None:
        async with served.http.stream("GET", "/mcp/sse", headers={**BOTH, **caller}) as response:
            async for line in lines_of(response):
                data = line.removeprefix("data: ")
                if data.startswith("{"):
                    session.on_message(json.loads(data))
                elif data != line and not address.done():
                    address.set_result(data)

    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(read())
        yield await opened(session, capabilities)
        reader.cancel()


@asynccontextmanager
async def over_stdio(
    era: str, capabilities: Json, *, caller: Sequence[str] = ("--tenant", "tenant_1")
) -> AsyncIterator[DuplexClient]:
    """Start ``mcp-tools-proxy stdio`` in this folder: one line for each message."""
    process = _launch_stdio(caller)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    async def write(_: str, message: object) -> None:
        stdin.write(json.dumps(message).encode() + b"\n")
        stdin.flush()

    session = Session(None, era, write)

    async def read() -> None:
        lines = asyncio.StreamReader(limit=2**26)
        protocol = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, stdout)
        async for line in lines:
            session.on_message(json.loads(line))

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            try:
                yield await opened(session, capabilities)
            finally:
                stdin.close()
    finally:
        await asyncio.to_thread(process.wait, BOUND_S)


def _launch_stdio(caller: Sequence[str]) -> Process:
    with Path("stdio.log").open("ab") as log:
        streams = (subprocess.PIPE, subprocess.PIPE, log.fileno())
        return launch(["stdio", *caller], Path.cwd(), UNLIMITED, streams=streams)
