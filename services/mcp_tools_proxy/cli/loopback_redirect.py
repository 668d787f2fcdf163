"""Waits on this machine for the browser that comes back from a sign-in (RFC 8252 §7.3)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

PATH = "/oauth/callback"

MAX_HEAD_BYTES = 16 * 1024
READ_S = 10.0
"""Seconds for a browser to send its request."""

_PAGE = (
    "<!doctype html><meta charset=utf-8><title>MCP Tools Proxy</title>"
    "<p>{text}</p><p>You can close this window.</p>"
)
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n"
    "Connection: close\r\n"
)


class LoopbackRedirect:
    """Listens for the answer of a sign-in; ``uri`` is where the browser is sent."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._path = urlsplit(uri).path
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._state = ""
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    def expect(self, state: str) -> None:
        """Accept the answer with this state, and no other: before the browser is opened."""
        self._state = state

    async def wait(self, timeout_s: float) -> Mapping[str, str]:
        """Return the answer. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            return await self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser."""
        self._open[writer] = asyncio.current_task()
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(READ_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._take(head.split(b"\r\n", 1)[0].decode("latin-1"))
                page = _PAGE.format(text=text).encode()
                answer = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n"
                writer.write(answer.encode() + page)
                await writer.drain()
        finally:
            del self._open[writer]
            writer.close()

    async def end(self) -> None:
        """End every connection: browsers open some that they do not use."""
        serving = [task for task in self._open.values() if task is not None]
        for writer in self._open:
            writer.transport.abort()
        if serving:
            await asyncio.wait(serving)

    def _take(self, request_line: str) -> tuple[str, str]:
        """Keep the answer of a request, and return the status and the text of the response."""
        method, _, rest = request_line.partition(" ")
        try:
            target = urlsplit(rest.partition(" ")[0])
        except ValueError:
            return "400 Bad Request", "Invalid address."
        if method != "GET" or target.path != self._path:
            return "404 Not Found", "Not found."
        answer = dict(parse_qsl(target.query))
        if not self._state or answer.get("state") != self._state or self._answer.done():
            return "400 Bad Request", "This link belongs to a different or finished sign-in."
        self._answer.set_result(answer)
        return "200 OK", "Sign-in finished; the terminal shows the result."


@asynccontextmanager
async def listening(uri: str | None) -> AsyncIterator[LoopbackRedirect]:
    """Yield a redirect that is listened for, at ``uri`` or on a free port.

    Raises OSError if the port is in use.
    """
    wanted = urlsplit(uri or f"http://127.0.0.1:0{PATH}")
    redirect: LoopbackRedirect | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if redirect is not None:
            await redirect.serve(reader, writer)

    server = await asyncio.start_server(
        serve, wanted.hostname, wanted.port or 0, limit=MAX_HEAD_BYTES
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        redirect = LoopbackRedirect(uri or f"http://127.0.0.1:{port}{PATH}")
        try:
            yield redirect
        finally:
            await redirect.end()
