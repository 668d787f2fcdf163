"""A bare MCP server over streamable HTTP: raw ASGI, any number of ports, one event loop.

``/modern`` and ``/legacy`` answer in JSON, each in its era; ``/sse`` is modern and frames its
answers as events; ``/hanging`` is modern and accepts calls that it never answers.
"""

import argparse
import asyncio
import socket
from collections.abc import Mapping, Sequence

import uvicorn
from starlette.types import Receive, Scope, Send

from benchmarks.echo import LEGACY, MODERN, Answers

MODERN_PATH, LEGACY_PATH, SSE_PATH, HANGING_PATH = "/modern", "/legacy", "/sse", "/hanging"

KEEP_ALIVE_S = 600
"""Longer than the forwarder waits for its turn: it would meet connections that are being closed."""

_SESSION = (b"mcp-session-id", b"the-only-session")
_NO_SESSION = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no session id"}}'
_JSON = (b"content-type", b"application/json")
_EVENTS = (b"content-type", b"text/event-stream")


class Responder:
    """The ASGI app. The first ``late_answers`` answers on the ``late_port`` take ``late_s``."""

    def __init__(self, tools: int, *, late_port: int, late_s: float, late_answers: int) -> None:
        modern = Answers(MODERN, tools)
        self._answers: Mapping[str, Answers] = {
            MODERN_PATH: modern,
            SSE_PATH: modern,
            HANGING_PATH: modern,
            LEGACY_PATH: Answers(LEGACY, tools),
        }
        self._late_port = late_port
        self._late_s = late_s
        self._late_answers = late_answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        message, whole = b"", False
        while not whole:
            event = await receive()
            message, whole = message + event.get("body", b""), not event.get("more_body", False)
        if scope["method"] != "POST":
            await _send(send, 405, b"", _JSON)
            return
        if path == HANGING_PATH and b'"tools/call"' in message:
            await asyncio.Event().wait()
        await self._delay(scope["server"][1])
        opening = b'"initialize"' in message
        if path == LEGACY_PATH and not opening and _SESSION not in scope["headers"]:
            await _send(send, 400, _NO_SESSION, _JSON)
            return
        answer = self._answers[path].to(message)
        if answer is None:
            await _send(send, 202, b"", _JSON)
        elif path == SSE_PATH:
            await _send(send, 200, b"event: message\ndata: " + answer + b"\n\n", _EVENTS)
        elif path == LEGACY_PATH and opening:
            await _send(send, 200, answer, _JSON, _SESSION)
        else:
            await _send(send, 200, answer, _JSON)

    async def _delay(self, port: int) -> None:
        if port == self._late_port and self._late_answers > 0:
            self._late_answers -= 1
            await asyncio.sleep(self._late_s)


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    if _EVENTS not in headers:  # a stream has no length
        headers = (*headers, (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve(app: Responder, ports: Sequence[int]) -> None:
    """Serve on all ports until SIGTERM."""
    sockets = [socket.create_server(("127.0.0.1", port), backlog=2048) for port in ports]
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    uvicorn.Server(config).run(sockets)


def main() -> None:
    """Serve; the last port is the late one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--late-s", type=float, default=0.0)
    parser.add_argument("--late-answers", type=int, default=0)
    parser.add_argument("ports", type=int, nargs="+")
    options = parser.parse_args()
    app = Responder(
        options.tools,
        late_port=options.ports[-1],
        late_s=options.late_s,
        late_answers=options.late_answers,
    )
    serve(app, options.ports)


if __name__ == "__main__":
    main()
