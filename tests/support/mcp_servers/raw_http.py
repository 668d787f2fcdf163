"""The raw server's streamable HTTP: both eras, JSON or event streams, sessions that can be lost."""

import asyncio
import json
import uuid

from aiohttp import web

from tests.support.mcp_servers.raw_output import Crash, Outbox, commit, event_stream, headers_of
from tests.support.mcp_servers.raw_script import LEGACY, MODERN, PREFIX, Script, Seen, is_modern
from tests.support.mcp_servers.raw_tools import GARBAGE, HALF, Fault, Json

Running = dict[object, "asyncio.Task[None]"]
"""Running requests of one session, by id."""


class StreamableHttp:
    def __init__(self, script: Script, crash: Crash) -> None:
        self.script = script
        self.sessions: dict[str, Running] = {}
        """Sessions of the legacy era."""
        self._crash = crash

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        params = message.get("params") or {}
        modern = is_modern(params) and self.script.options.era != "legacy"
        refusal = _strictly(request, message) if modern else self._sessionless(request, message)
        if refusal is not None:
            return refusal
        session_id = request.headers.get("Mcp-Session-Id", "")
        if "method" not in message or "id" not in message:
            if "method" not in message:
                self.script.on_response(message)
            elif message["method"] == "notifications/cancelled":
                self._cancel(session_id, params.get("requestId"))
            return web.Response(status=202)
        headers = {}
        if message["method"] == "initialize" and not self.script.options.stateless:
            session_id = uuid.uuid4().hex
            self.sessions[session_id] = {}
            headers["Mcp-Session-Id"] = session_id
        return await self._reply(request, message, self.sessions.get(session_id, {}), headers)

    def _sessionless(self, request: web.Request, message: Json) -> web.Response | None:
        if message.get("method") == "initialize" or self.script.options.stateless:
            return None
        session_id = request.headers.get("Mcp-Session-Id")
        if session_id is None:
            return _refusal(400, -32000, "Bad Request: No valid session ID provided")
        if session_id not in self.sessions:
            return _refusal(404, -32001, "Session not found")
        return None

    def _cancel(self, session_id: str, request_id: object) -> None:
        task = self.sessions.get(session_id, {}).get(request_id)
        if task is not None:
            task.cancel()

    async def _reply(
        self,
        request: web.Request,
        message: Json,
        running: Running,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        outbox: Outbox = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(self._work(request, message, outbox))
            running[message["id"]] = work
            work.add_done_callback(lambda _: outbox.put_nowait(None))
            try:
                if self.script.options.sse or message["method"] == "subscriptions/listen":
                    return await event_stream(request, outbox, self._crash, headers=headers)
                return await self._json(request, message, outbox, headers)
            finally:
                running.pop(message["id"], None)
                work.cancel()

    async def _work(self, request: web.Request, message: Json, outbox: Outbox) -> None:
        seen = Seen(send=outbox.put_nowait, headers=headers_of(request))
        outbox.put_nowait(await self.script.answer(message, seen))

    async def _json(
        self, request: web.Request, message: Json, outbox: Outbox, headers: dict[str, str]
    ) -> web.StreamResponse:
        item: Json | Fault | None = {}
        while isinstance(item, dict) and ("id" not in item or "method" in item):
            item = await outbox.get()
        match item:
            case None:
                return web.Response(status=204)
            case Fault.GARBAGE:
                return web.Response(text=GARBAGE, content_type="application/json")
            case Fault():
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                response.content_length = 2 * len(HALF)
                await response.prepare(request)
                await commit(item, request, self._crash, HALF.encode(), response.write)
                return response
        unknown = item.get("error", {}).get("code") == -32601
        return web.Response(
            status=404 if unknown and is_modern(message.get("params")) else 200,
            body=json.dumps(item, separators=(",", ":")).encode(),
            content_type="application/json",
            headers=headers,
        )

    async def get(self, request: web.Request) -> web.StreamResponse:
        session_id = request.headers.get("Mcp-Session-Id", "")
        if not session_id or not self.script.options.list_changed:
            return web.Response(status=405)
        if session_id not in self.sessions:
            return web.Response(status=404)
        outbox: Outbox = asyncio.Queue()
        token = object()
        self.script.listeners[token] = (outbox.put_nowait, {})
        try:
            return await event_stream(request, outbox, self._crash, headers={})
        finally:
            del self.script.listeners[token]

    async def delete(self, request: web.Request) -> web.Response:
        known = self.sessions.pop(request.headers.get("Mcp-Session-Id", ""), None)
        return web.Response(status=404 if known is None else 200)


def _strictly(request: web.Request, message: Json) -> web.Response | None:
    params = message.get("params") or {}
    expected = {
        "MCP-Protocol-Version": params["_meta"][f"{PREFIX}protocolVersion"],
        "Mcp-Method": message.get("method"),
    }
    if message.get("method") in {"tools/call", "prompts/get"}:
        expected["Mcp-Name"] = params.get("name")
    if message.get("method") == "resources/read":
        expected["Mcp-Name"] = params.get("uri")
    for header, value in expected.items():
        given = request.headers.get(header, "")
        if given != value and not given.startswith("=?base64?"):
            return _refusal(400, -32020, f"{header} is not what the body says", message.get("id"))
    if expected["MCP-Protocol-Version"] != MODERN:
        data = {"supported": [MODERN, *LEGACY]}
        return _refusal(400, -32022, "Unsupported protocol version", message.get("id"), data)
    return None


def _refusal(
    status: int, code: int, text: str, id_: object = None, data: object = None
) -> web.Response:
    error = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return web.json_response({"jsonrpc": "2.0", "id": id_, "error": error}, status=status)
