import asyncio
import json
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest

from mcp_tools_proxy.mcp.server.http.legacy_sse import MAX_UNREAD
from mcp_tools_proxy.server.http_protocol import BoundedProtocol
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json
from tests.support.leak_checks import ResourcesInUse
from tests.support.mcp_endpoint import BOTH, INITIALIZE, LEGACY, MODERN, TENANT, Served
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.raw_mcp_client import ERAS, RawMcpClient, in_front_of_one, next_data, raw_client
from tests.support.service import eventually

PROGRESS = {"progressToken": "$token", "progress": 1, "message": "x" * 10_000}
NOTIFICATIONS = {
    "messages": [{"method": "notifications/progress", "params": PROGRESS}],
    "times": 2000,
}
"""20 MB, far more than the socket buffers on both sides hold."""


class ImpatientProtocol(BoundedProtocol):
    stall_timeout_s = 0.2


@asynccontextmanager
async def in_front_of_talker() -> AsyncIterator[tuple[Served, RawServer]]:
    async with in_front_of_one(
        ("notify", "echo"), era="legacy", sse=True, settings={"protocol": ImpatientProtocol}
    ) as found:
        yield found


@contextmanager
def unread(served: Served, method: str, path: str, headers: Json, body: Json) -> Iterator[Any]:
    """Send a request whose answer is never read."""
    content = json.dumps(body).encode()
    lines = {**headers, "Host": "127.0.0.1", "Content-Length": len(content)}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", urlsplit(served.url).port))
        start = f"{method} {path} HTTP/1.1\r\nContent-Type: application/json\r\n{head}\r\n"
        connection.sendall(start.encode() + content)
        connection.setblocking(False)
        yield connection


async def wait_until_closed(connection: socket.socket) -> None:
    """Wait until the other side has closed the connection, without reading from it."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)

    async def has_ended() -> bool:
        return bool(poll.poll(0))

    await eventually(has_ended)


def calling(client: RawMcpClient, tool: str, arguments: Json) -> tuple[Json, dict[str, str]]:
    params = {"name": f"s1:{tool}", "arguments": arguments, "_meta": {"progressToken": 7}}
    return client.build("tools/call", params)


@pytest.mark.parametrize("era", ERAS)
async def test_messages_to_a_client_that_never_reads_are_dropped(era: str) -> None:
    async with in_front_of_talker() as (served, server):
        body, headers = calling(await raw_client(served, era), "notify", NOTIFICATIONS)
        other = await raw_client(served, MODERN)
        with unread(served, "POST", "/mcp", headers, body):

            async def is_over() -> bool:
                return served.service.gateway.lifecycle.in_flight == 0

            while not server.script.calls["notify"]:
                assert "isError" not in await other.call("echo")
            await eventually(is_over)
        assert "isError" not in await other.call("echo")


async def test_a_legacy_sse_client_that_never_reads_is_disconnected() -> None:
    async with in_front_of_talker() as (served, _):
        other = await raw_client(served, MODERN)
        with (
            capture_logs() as lines,
            unread(served, "GET", "/mcp/sse", {**BOTH, **TENANT}, {}) as connection,
        ):
            loop, found = asyncio.get_running_loop(), b""
            while b"sessionId=" not in found or not found.endswith(b"\n"):
                found += await loop.sock_recv(connection, 1)  # only up to the address
            address = found.decode().split("data: ")[1].split()[0]
            session = RawMcpClient(served, LEGACY, None, {})
            session.session_id = ""
            body, _ = session.build("initialize", INITIALIZE)
            await served.http.post(address, json=body, headers=TENANT)
            statuses = {202}
            while statuses == {202}:  # until too many bytes wait for the client
                body, _ = calling(session, "echo", {"text": "x" * 200_000})
                posted = await served.http.post(address, json=body, headers=TENANT)
                statuses.add(posted.status_code)
            assert "isError" not in await other.call("echo")
            await wait_until_closed(connection)

        async def has_no_stream() -> bool:
            return served.facade.streams == 0

        await eventually(has_no_stream)
        assert [line["event"] for line in lines if line["log_level"] == "error"] == []
        assert "isError" not in await other.call("echo")


@pytest.mark.parametrize("spelling", ["{}", "{{{}}}", "urn:uuid:{}", "upper case", "dashes"])
async def test_pending_bytes_of_a_stream_are_bounded_for_every_spelling_of_its_id(
    served: Served, spelling: str
) -> None:
    """An answer repeats its request's id: here 1 MB, and the sockets hold a few MB."""
    async with served.http.stream("GET", "/mcp/sse", headers=TENANT) as stream:
        lines = stream.aiter_lines()
        announced = await next_data(lines)  # read no further
        path, _, session_id = announced.partition("?sessionId=")
        match spelling:
            case "upper case":
                spelled = session_id.upper()
            case "dashes":
                spelled = str(UUID(session_id))
            case _:
                spelled = spelling.format(session_id)
        codes: list[str | None] = []
        while codes[-1:] != ["NO_ROOM"] and len(codes) < MAX_UNREAD:
            ping = {"jsonrpc": "2.0", "id": f"{len(codes)}{'x' * 1_000_000}", "method": "ping"}
            posted = await served.http.post(
                path, params={"sessionId": spelled}, json=ping, headers=TENANT
            )
            codes.append(None if posted.status_code == 202 else refusal(posted))
    assert (codes[-1], len(codes) < MAX_UNREAD // 2) == ("NO_ROOM", True)


async def test_a_client_that_reads_its_stream_may_send_any_number_of_large_requests(
    served: Served,
) -> None:
    async with served.http.stream("GET", "/mcp/sse", headers=TENANT) as stream:
        lines = stream.aiter_lines()
        address = await next_data(lines)
        for number in range(5):
            ping = {"jsonrpc": "2.0", "id": f"{number}{'x' * 1_000_000}", "method": "ping"}
            posted = await served.http.post(address, json=ping, headers=TENANT)
            assert posted.status_code == 202
            assert json.loads(await next_data(lines))["id"] == ping["id"]


def refusal(response: httpx.Response) -> str:
    return str(response.json()["error"]["data"]["code"])


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_never_reads_delays_no_other_and_leaves_nothing(era: str) -> None:
    """Its call sends more than all buffers hold, 10 MB, and still ends."""
    lines = [
        {"method": "notifications/message", "params": {"level": "error", "data": "x" * 60_000}}
    ]
    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    arguments = {"messages": lines, "times": 160}
    async with in_front_of_one(("notify", "echo"), era="legacy", sse=True) as (served, server):
        deaf, other = await raw_client(served, era), await raw_client(served, era)
        await other.call("echo")
        before = ResourcesInUse.now()
        for _ in range(3):
            params = {"name": "s1:notify", "arguments": arguments, "_meta": meta}
            body, headers = deaf.build("tools/call", params)
            with unread(served, "POST", "/mcp", headers, body):
                for _ in range(10):
                    assert "structuredContent" in await other.call("echo", {"text": "x"})
        await eventually(before.is_not_exceeded)
        assert server.script.running_count == 0
