"""Lua scripts on one connection to Redis, pipelined.

Each call of the gateway runs two scripts. With a connection from a pool for each, redis-py took
more CPU than the rest of the call. Here all scripts that are submitted in one turn of the event
loop share a write, and replies that arrive together share a read. Redis answers in the order of the
requests.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from hashlib import sha1
from typing import Any

import hiredis
from redis.asyncio import Connection, ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

Word = str | bytes | int


class Script:
    """A Lua script, and the digest by which Redis knows it once it has run."""

    __slots__ = ("digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


class ScriptPipeline:
    """Runs scripts on one connection, which is opened with the options of ``pool`` when needed.

    If the connection breaks, the scripts that wait for replies fail, and the next script opens a
    new one.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._link: _Link | None = None
        self._opening = asyncio.Lock()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """Run a script and return its reply.

        Raises RedisError if Redis refuses the script or the connection breaks. If this is
        cancelled, the script may still run; its reply is dropped.
        """
        link = self._link
        if link is None or link.closed:
            link = await self._open()
        words = [key.encode(errors="surrogatepass") for key in keys]
        return await link.submit(script, (len(keys), *words, *arguments))

    async def _open(self) -> "_Link":
        async with self._opening:
            if self._link is None or self._link.closed:
                connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
                await connection.connect()  # TLS, AUTH, SELECT
                self._link = _Link(connection)
            return self._link

    def disconnect(self) -> None:
        """Close the connection; scripts that wait for a reply fail."""
        link, self._link = self._link, None
        if link is not None:
            link.close(RedisConnectionError("the connection was closed"))


class _Request:
    __slots__ = ("reply", "script", "words")

    def __init__(self, script: Script, words: Sequence[Word], reply: "asyncio.Future[Any]") -> None:
        self.script = script
        self.words = words
        """The arguments of the command after the script."""
        self.reply = reply


class _Link(asyncio.Protocol):
    """An open connection, its requests without a reply, and those to be written in this turn."""

    def __init__(self, connection: Connection) -> None:
        self.closed = False
        writer, connection._writer = connection._writer, None  # noqa: SLF001
        if writer is None:
            raise RedisConnectionError("the connection was closed")
        self._writer = writer  # like the connection, it closes the transport when it is deleted
        self._transport = writer.transport
        self._loop = asyncio.get_running_loop()
        self._replies = hiredis.Reader(replyError=ResponseError, protocolError=RedisConnectionError)
        self._unanswered: deque[_Request] = deque()
        self._unwritten: list[bytes] = []
        self._transport.set_protocol(self)

    def submit(self, script: Script, words: Sequence[Word]) -> "asyncio.Future[Any]":
        """Send a script in this turn of the loop; return the future of its reply."""
        request = _Request(script, words, self._loop.create_future())
        self._send(request, "EVALSHA", script.digest)
        return request.reply

    def _send(self, request: _Request, command: str, script: str) -> None:
        if not self._unwritten:
            self._loop.call_soon(self._write)
        words = (command, script, *request.words)
        self._unwritten.append(hiredis.pack_command(words))  # type: ignore[arg-type]
        self._unanswered.append(request)

    def _write(self) -> None:
        """Write the requests of this turn; for uvloop, separate writes took 9 µs more a call."""
        unwritten, self._unwritten = self._unwritten, []
        if not self.closed:
            self._transport.write(b"".join(unwritten))

    def data_received(self, data: bytes) -> None:
        """Match the replies with the requests, in order."""
        try:
            self._replies.feed(data)
            while (reply := self._replies.gets()) is not False:
                self._answer(self._unanswered.popleft(), reply)
        except (RedisError, IndexError) as error:
            self.close(RedisConnectionError(f"not a reply to a request: {error}"))

    def _answer(self, request: _Request, reply: object) -> None:
        if request.reply.done():  # its call was cancelled
            return
        if not isinstance(reply, ResponseError):
            request.reply.set_result(reply)
        elif str(reply).startswith("NOSCRIPT"):  # Redis was restarted, or runs it the first time
            self._send(request, "EVAL", request.script.text)
        else:
            request.reply.set_exception(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests that have no reply."""
        self.close(RedisConnectionError(str(exc or "Redis closed the connection")))

    def close(self, error: Exception) -> None:
        """Close the connection, and fail the requests that have no reply with ``error``."""
        self.closed = True
        self._transport.abort()
        while self._unanswered:
            reply = self._unanswered.popleft().reply
            if not reply.done():
                reply.set_exception(error)
