"""A bare streamable HTTP MCP server: raw ASGI, any number of ports, one event loop.

``/modern`` responds with JSON; ``/hanging`` accepts calls without responding.
"""

import argparse
import asyncio
import socket
from collections.abc import Sequence

import uvicorn
from starlette.types import Receive, Scope, Send

from benchmarks.echo import Answers

MODERN_PATH, HANGING_PATH = "/modern", "/hanging"

KEEP_ALIVE_S = 600
"""Longer than the forwarder's pauses, which would otherwise use connections being closed."""

_JSON = (b"content-type", b"application/json")


class Responder:
    """The ASGI app."""

    def __init__(self, tools: int) -> None:
        self._answers = Answers(tools)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message, whole = b"", False
        while not whole:
            event = await receive()
            message, whole = message + event.get("body", b""), not event.get("more_body", False)
        if scope["method"] != "POST":
            await _send(send, 405, b"")
            return
        if scope["path"] == HANGING_PATH and b'"tools/call"' in message:
            await asyncio.Event().wait()
        answer = self._answers.to(message)
        await (_send(send, 202, b"") if answer is None else _send(send, 200, answer))


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = (_JSON, (b"content-length", str(len(body)).encode()))
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
    """Serve on the ports in the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("ports", type=int, nargs="+")
    options = parser.parse_args()
    serve(Responder(options.tools), options.ports)


if __name__ == "__main__":
    main()
