import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.downstream.connections import dialled
from tests.downstream.stub_server import Json
from tests.support.bounds import BOUND_S, until
from tests.support.configuration import Config, make_preset
from tests.support.service import SERVERS, Service, running
from tests.support.web_app import serving_app

TOOLS: list[Json] = [
    {"name": "write", "inputSchema": {"type": "object"}},
    {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "same", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
]
CAPABILITIES: Json = {"tools": {}}


def error(status: int, code: int, message: str) -> web.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return web.json_response(body, status=status)


LOST: dict[str, Any] = {
    "404": lambda: web.Response(status=404),
    "400-not-initialized": lambda: error(400, -32000, "Bad Request: Server not initialized"),
    "400-text": lambda: web.Response(status=400, text="Server not initialized"),
    "401": lambda: web.Response(status=401),
    "401-json": lambda: error(401, -32001, "unknown"),
    "500": lambda: web.Response(status=500),
    "500-json": lambda: error(500, -32603, "Internal error"),
    "503": lambda: web.Response(status=503),
    "200-null": lambda: error(200, -32600, "no such session"),
}


class SessionServer:
    """A server of an older era whose sessions a test ends; it counts executed calls."""

    def __init__(self) -> None:
        self.url = ""
        self.sessions: set[str] = set()
        self.lost = LOST["404"]
        self.get_status = 405
        self.answers: list[Any] = []
        """Responses to the next calls."""
        self.executed: list[str] = []
        self.initialized = 0
        self.gets = 0

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        method, session_id = message.get("method"), request.headers.get("Mcp-Session-Id")
        if method == "server/discover":
            return web.Response(status=405)
        if method == "initialize":
            self.initialized += 1
            session_id = f"session-{self.initialized}"
            self.sessions.add(session_id)
            result: Json = {
                "protocolVersion": "2025-11-25",
                "capabilities": CAPABILITIES,
                "serverInfo": {"name": "x", "version": "1"},
            }
            return reply(message, result, {"Mcp-Session-Id": session_id})
        if session_id not in self.sessions:
            answer: web.StreamResponse = self.lost()
            return answer
        match method:
            case "tools/list":
                return reply(message, {"tools": TOOLS})
            case "ping":
                return reply(message, {})
            case "tools/call" if self.answers:
                given: web.StreamResponse = self.answers.pop(0)(request)
                return given
            case "tools/call":
                self.executed.append(message["params"]["name"])
                return reply(message, {"content": [{"type": "text", "text": "OK"}]})
        return web.Response(status=202)

    async def get(self, _: web.Request) -> web.StreamResponse:
        self.gets += 1
        return web.Response(status=self.get_status)


def reply(message: Json, result: Json, headers: Any = None) -> web.Response:
    body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return web.json_response(body, headers=headers)


@asynccontextmanager
async def listening(server: SessionServer) -> AsyncIterator[SessionServer]:
    app = web.Application()
    app.router.add_post("/mcp", server.post)
    app.router.add_get("/mcp", server.get)
    async with serving_app(app) as url:
        server.url = f"{url}/mcp"
        yield server


@asynccontextmanager
async def served(server: SessionServer) -> AsyncIterator[Service]:
    entry = {"transport": "streamable-http", "url": server.url}
    tools = [("s", tool["name"]) for tool in TOOLS]
    config = Config(servers={"s": entry}, presets=[make_preset(tools=tools)])
    async with running(config=config) as service:
        yield service


async def state_of(service: Service) -> Json:
    (status,) = (await service.get(SERVERS))["servers"]
    found: Json = status
    return found


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_a_lost_session_is_reopened_for_every_form_of_the_refusal(lost: Any) -> None:
    async with listening(SessionServer()) as server, served(server) as service:
        assert await service.code("s:write", {}) == "OK"
        server.lost = lost
        server.sessions.clear()
        await service.execute("s:read")
        await until(lambda: server.initialized == 2, "a new session begins")
        assert await service.code("s:write", {}) == "OK"


@pytest.mark.parametrize("tool", ["write", "read", "same"])
async def test_a_call_answered_with_404_is_sent_once_more(tool: str) -> None:
    async with listening(SessionServer()) as server, served(server) as service:
        server.sessions.clear()
        assert await service.code(f"s:{tool}", {}) == "OK"
        assert (server.executed, server.initialized) == ([tool], 2)


async def test_a_refusal_of_one_call_keeps_the_session() -> None:
    async with listening(SessionServer()) as server, served(server) as service:
        server.answers = [lambda _: error(400, -32602, "Invalid params")]
        await service.execute("s:write")
        assert await service.code("s:write", {}) == "OK"
        assert server.initialized == 1


async def test_404_to_the_first_get_means_no_stream() -> None:
    server = SessionServer()
    server.get_status = 404
    async with listening(server), served(server) as service:
        await until(lambda: server.gets, "the stream is requested")
        codes = [await service.code("s:write", {}) for _ in range(20)]
        assert codes == ["OK"] * 20
        assert (server.initialized, server.gets) == (1, 1)


@pytest.mark.parametrize("value", [
    "7", lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True), "99999",
], ids=["seconds", "date", "capped"])  # fmt: skip
async def test_429_is_retryable_after_the_stated_time(value: Any) -> None:
    header = value if isinstance(value, str) else value()
    refused = {"Retry-After": header}
    async with listening(SessionServer()) as server, served(server) as service:
        server.answers = [lambda _: web.Response(status=429, headers=refused)]
        found = (await service.execute("s:write"))["error"]
        assert (found["code"], found["retryable"]) == ("SERVER_UNAVAILABLE", True)
        bounds = {"7": (7, 7), "99999": (300, 300)}.get(header, (0, 60))
        assert bounds[0] <= found["retry_after_s"] <= bounds[1]
        assert (await state_of(service))["state"] == "ready"
        assert (await service.code("s:write", {}), server.initialized) == ("OK", 1)


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", f"Fri, 31 Dec {'9' * 20} 23:59:59 GMT"])
async def test_429_with_an_invalid_time_is_retryable(value: str) -> None:
    refused = {"Retry-After": value}
    async with listening(SessionServer()) as server, served(server) as service:
        server.answers = [lambda _: web.Response(status=429, headers=refused)]
        found = (await service.execute("s:write"))["error"]
        assert (found["code"], found["retryable"]) == ("SERVER_UNAVAILABLE", True)
        assert "retry_after_s" not in found


@pytest.mark.parametrize(("tool", "retryable"), [("write", None), ("read", True), ("same", True)])
async def test_503_with_retry_after_is_retryable_for_repeatable_tools(
    tool: str, retryable: bool | None
) -> None:
    async with listening(SessionServer()) as server, served(server) as service:
        server.answers = [lambda _: web.Response(status=503, headers={"Retry-After": "9"})] * 2
        found = (await service.execute(f"s:{tool}"))["error"]
        assert found["code"] == "SERVER_UNAVAILABLE"
        assert (found.get("retryable"), found["retry_after_s"]) == (retryable, 9)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_busy_during_connecting_is_retried_after_the_stated_time(
    status: int,
) -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Retry-After": "250"})

    server = SessionServer()
    server.post = busy  # type: ignore[method-assign]
    async with listening(server), served(server) as service:
        found = (await service.execute("s:write"))["error"]
        assert 200 < found["retry_after_s"] <= 250


def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(("tool", "code"), [
    ("write", "SERVER_UNAVAILABLE"), ("read", "OK"), ("same", "OK"),
])  # fmt: skip
async def test_a_call_on_a_closed_connection_is_sent_again_if_that_is_safe(
    tool: str, code: str
) -> None:
    async with listening(SessionServer()) as server, served(server) as service:
        assert await service.code("s:write", {}) == "OK"
        server.answers = [hang_up]
        assert await service.code(f"s:{tool}", {}) == code
        assert await service.code("s:write", {}) == "OK"
        assert server.initialized == 1


async def test_a_list_on_a_closed_connection_is_sent_again() -> None:
    server, lists = SessionServer(), [hang_up]

    async def post(request: web.Request) -> web.StreamResponse:
        if (await request.json()).get("method") == "tools/list" and lists:
            return lists.pop()(request)
        return await SessionServer.post(server, request)

    server.post = post  # type: ignore[method-assign]
    entry = {"transport": "streamable-http"}
    async with listening(server), dialled({**entry, "url": server.url}) as line:
        found = await line.link.request("tools/list", {}, timeout_s=60)
        assert len(found["tools"]) == len(TOOLS)


async def handshake_failure(
    post: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]],
) -> str:
    """Return the reason why a server that answers POST like ``post`` cannot be connected to."""
    server = SessionServer()
    server.post = post  # type: ignore[method-assign, assignment]
    async with listening(server):
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled({"transport": "streamable-http", "url": server.url}):
                pass
    return caught.value.reason


def answer_of_initialize(**result: Any) -> Json:
    full = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "serverInfo": {"name": "x", "version": "1"},
    }
    return {key: value for key, value in (full | result).items() if value is not None}


@pytest.mark.parametrize(("result", "words"), [
    (answer_of_initialize(protocolVersion="1999-01-01"), '"1999-01-01"; supported are 2024-11-05'),
    (answer_of_initialize(serverInfo=None), '"serverInfo": field required'),
    (answer_of_initialize(serverInfo={"name": 3, "version": "1"}), '"serverInfo.name": input'),
    (answer_of_initialize(capabilities="all"), '"capabilities": input should be'),
], ids=["version", "missing", "nested", "type"])  # fmt: skip
async def test_a_failed_handshake_names_the_field_or_version(result: Json, words: str) -> None:
    async def post(request: web.Request) -> web.StreamResponse:
        message = await request.json()
        return reply(message, result) if message["method"] == "initialize" else LOST["500"]()

    assert words in await handshake_failure(post)


def answer_of_discover(**result: Any) -> Json:
    full = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    return {key: value for key, value in (full | result).items() if value is not None}


@pytest.mark.parametrize(("result", "words"), [
    (answer_of_discover(supportedVersions=["2099-01-01"]), '"2099-01-01"; supported are 2024-11'),
    (answer_of_discover(supportedVersions=None), 'server/discover is not valid MCP: "supportedV'),
    (answer_of_discover(supportedVersions="2026-07-28"), '"supportedVersions": input should be'),
    (answer_of_discover(capabilities="all"), '"capabilities": input should be'),
    (answer_of_discover(ttlMs="soon"), '"ttlMs": input should be'),
    ([1], "server/discover: the server's answer has neither a result object nor an error"),
], ids=["version", "missing", "type", "capabilities", "number", "list"])  # fmt: skip
@pytest.mark.parametrize("initialize", ["error", "refused", "failed", "text", "closed"])
async def test_a_failed_handshake_names_the_error_in_the_probes_answer(
    result: Any, words: str, initialize: str
) -> None:
    refusals: dict[str, Any] = {
        "error": lambda _: error(200, -32601, "Method not found"),
        "refused": lambda _: web.Response(status=400),
        "failed": lambda _: error(500, -32603, "Internal error"),
        "text": lambda _: web.Response(text="<html>"),
        "closed": hang_up,
    }

    async def post(request: web.Request) -> web.StreamResponse:
        message = await request.json()
        if message["method"] == "server/discover":
            return reply(message, result)
        answer: web.StreamResponse = refusals[initialize](request)
        return answer

    reason = await handshake_failure(post)
    assert words in reason
    assert "; initialize: " in reason


LATE = """
import json, sys, time
how = sys.argv[1]
def send(id, **answer):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **answer}), flush=True)
def discovered(id):
    send(id, result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                     "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
probe, asked = None, False
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "server/discover" and probe is None:
        probe = message["id"]
    elif method == "initialize":
        if how != "after":
            discovered(probe)
        if how != "ignores":
            send(message["id"], error={"code": -32600, "message": "duplicate initialize received"})
        if how == "after":
            time.sleep(0.2)
            discovered(probe)
    elif method == "tools/call":
        send(message["id"], result={"content": []})
"""


@pytest.mark.parametrize("how", ["before", "after", "ignores"])
async def test_a_late_answer_to_the_probe_is_adopted_if_initialize_fails(how: str) -> None:
    entry = {"command": "python3", "args": ["-c", LATE, how]}
    async with dialled(entry, connect_timeout_s=3) as line:
        assert line.link.era == "2026-07-28"
        await asyncio.wait_for(line.call("any"), BOUND_S)
