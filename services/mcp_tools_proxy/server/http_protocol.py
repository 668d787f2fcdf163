"""uvicorn's HTTP protocol with limits that uvicorn and httptools lack.

Without them a client can hold memory and connections forever: by heads and chunk lines of any size,
requests that never end, unread responses, and pipelining.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

import httptools
import structlog
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mcp_tools_proxy.server.slow_clients import (
    ArrivalTimer,
    JoinedWrites,
    PausableFlow,
    UnreadWatch,
)

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class _BehindHead:
    """Forwards parser callbacks to ``protocol``, except those of the first head."""

    def __init__(self, protocol: object) -> None:
        self._protocol: Any = protocol
        self._is_behind = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        callback = getattr(self._protocol, name)

        def call(*values: object) -> None:
            if self._is_behind:
                callback(*values)

        return call

    def on_headers_complete(self) -> None:
        """Forward all callbacks after the first head."""
        if self._is_behind:
            self._protocol.on_headers_complete()
        self._is_behind = True


def parser_behind_head(
    protocol: object,
    headers: Iterable[tuple[bytes, bytes]],
    head_parser: httptools.HttpRequestParser,
) -> tuple[httptools.HttpRequestParser, bytes]:
    """Return a parser for the data after the head in ``headers``, and the bytes to feed it first.

    ``head_parser`` treats the body as that of an upgraded protocol, and the next read as a new
    request. A body would become a request with headers that no proxy has seen (request smuggling).
    Refusing such requests is not possible, because Java's HTTP client offers h2c with each first
    POST.
    """
    parser = httptools.HttpRequestParser(_BehindHead(protocol))
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # like uvicorn's
    keeps_alive = head_parser.should_keep_alive()
    lines = [b"POST / HTTP/%b" % head_parser.get_http_version().encode()]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name in _FRAMING]
    lines.append(b"connection: keep-alive" if keeps_alive else b"connection: close")
    return parser, b"\r\n".join([*lines, b"", b""])


log = structlog.get_logger()

ARRIVAL_TIMEOUT_S = 30.0
"""Seconds for a complete request, from its first byte or the connection's start."""

UPLOAD_TIMEOUT_S = 120.0
"""Seconds for an upload after its head: 64 MB on an office connection."""

STALL_TIMEOUT_S = 60.0
"""Seconds until a client that reads none of its pending data is dropped."""

MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request line with headers, of a chunk's size line, and of trailers."""

MAX_HEADERS = 256
"""Maximum headers, and trailers, of a request: 64 KiB of the shortest ones took 0.7 MB."""

POLL_S = 1.0
"""Seconds between two checks whether a client is still connected while reading is paused."""

MAX_PENDING_REQUESTS = 8
"""Pending requests per connection (HTTP pipelining)."""

READ_BYTES = 32 * 1024
"""Bytes parsed per turn: uvloop passes up to 256 kB, which can be 40,000 one-byte chunks, and
parsing these blocks the event loop.
"""

_SCHEME_END = b"://"
_PATH_OR_QUERY = re.compile(rb"[/?#]")
_BLANK_LINE = b"\r\n\r\n"
_SPACE = ord(" ")
_TOO_LARGE = "its head, a chunk's line or its trailers are too large"
_TOO_MANY = "it sends requests ahead without waiting for answers"


class _Refused(Exception):
    """Raised in a callback to stop the parser."""


class BoundedProtocol(HttpToolsProtocol):
    """Limits a connection's pipelined requests and unread data, and the duration of a request.

    The connection is closed if a request does not arrive in time, if a head, chunk size line or
    trailers exceed MAX_HEAD_BYTES or MAX_HEADERS, and if the client does not read. A request beyond
    MAX_PENDING_REQUESTS closes it after the pending ones are answered. Trailers are dropped:
    httptools would append them to the headers, and they could change the tenant after its check.
    """

    arrival_timeout_s = ARRIVAL_TIMEOUT_S
    upload_timeout_s = UPLOAD_TIMEOUT_S
    uploads: Collection[tuple[str, str]] = ()
    """Method and path of requests with ``upload_timeout_s``."""
    is_stopping: Callable[[], bool] = staticmethod(lambda: False)
    """Whether further responses close their connection."""
    stall_timeout_s = STALL_TIMEOUT_S
    poll_s = POLL_S

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._arrival = ArrivalTimer(self.loop, self.arrival_timeout_s, self._on_arrival_timeout)
        self._running: RequestResponseCycle | None = None
        """The request being served; ``cycle`` is the last one read."""
        self._unparsed = b""
        """Received bytes that are not parsed."""
        self._ignores_input = False
        """Whether further bytes of this connection are ignored."""
        self._data = self._tail = b""
        """The bytes being parsed, and the three bytes before them."""
        self._offset = 0
        """Known minimum offset of the parser in ``_data``."""
        self._block_bytes = 0
        """Bytes before ``_data`` of an unfinished head, chunk size line or trailers."""
        self._in_message = self._in_body = self._in_chunk = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        super().connection_made(transport)
        self.flow: PausableFlow = PausableFlow(
            transport, on_disconnect=self._close_after_flush, poll_s=self.poll_s
        )
        self._unread = UnreadWatch(transport, self.stall_timeout_s)
        self._arrival.start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and notify the running request of the disconnect."""
        self._unparsed = b""
        self._arrival.close()
        self._unread.stop()
        self.flow.stop_polling()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, at most READ_BYTES per turn."""
        if self._ignores_input:
            return
        if self.timeout_keep_alive_task is not None:
            self._arrival.start()  # blank lines begin no message, and would never time out
            self._unset_keepalive_if_required()
        if len(data) > READ_BYTES:
            data, self._unparsed = data[:READ_BYTES], data[READ_BYTES:]
            self.flow.hold()
            self.loop.call_soon(self._parse_next)
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._data, self._offset = data, 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(upgrade.args[0])
        except httptools.HttpParserError as error:
            self._refuse(error.__context__)
        else:
            if self._in_message:
                self._count_unfinished_block()
        self._data = b""

    def _ignore_upgrade(self, end: int) -> None:
        """Parse the bytes after ``end``, the end of a head, as HTTP."""
        data, self._data = self._data, self._data[:end]
        self._count_unfinished_block()
        self.parser, head = parser_behind_head(self, self.scope["headers"], self.parser)
        self.parser.feed_data(head)
        if len(data) > end:
            self._parse(data[end:])

    def _parse_next(self) -> None:
        if self._ignores_input or self.transport.is_closing():
            return
        data, self._unparsed = self._unparsed, b""
        if len(data) <= READ_BYTES:
            self.flow.release()
        self.data_received(data)

    def _count_unfinished_block(self) -> None:
        """Count the bytes of an unfinished head, chunk size line or trailers."""
        data = self._data
        self._block_bytes += len(data) - self._offset
        self._tail = data[-3:] if len(data) >= 3 else (self._tail + data)[-3:]
        if self._block_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._refuse(_Refused(_TOO_LARGE))

    def on_message_begin(self) -> None:
        """Start the timer for a request. Raises _Refused above the pipeline limit."""
        # the request being served is not in the pipeline
        if len(self.pipeline) >= MAX_PENDING_REQUESTS - 1:
            raise _Refused(_TOO_MANY)
        self._in_message, self._block_bytes = True, 0
        while self._data[self._offset] < _SPACE:  # skip blank lines before the request
            self._offset += 1
        super().on_message_begin()
        self._arrival.start()

    def on_headers_complete(self) -> None:
        """Handle a complete head. Raises _Refused if it is too large."""
        if self._block_bytes:
            self._finish_block(self._end_of_lines())
        else:
            self._finish_block(self._data.index(_BLANK_LINE, self._offset) + len(_BLANK_LINE))
        if len(self.headers) > MAX_HEADERS:
            raise _Refused(_TOO_LARGE)
        if _SCHEME_END in self.url:
            self._use_host_of_target()
        super().on_headers_complete()
        self.headers = []  # the parser appends trailers to this new list, which no request uses
        if self.uploads and (self.scope["method"], self.scope["path"]) in self.uploads:
            self._arrival.extend(self.upload_timeout_s)
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body."""
        self._offset += len(body)
        self._in_chunk = True
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Handle a chunk's size line. Raises _Refused if it is too large."""
        self._finish_block(self._end_of_line())
        self._in_chunk = False

    def on_chunk_complete(self) -> None:
        """Handle the end of a chunk; after the last, empty one, handle the trailers."""
        if self._in_chunk:
            self._finish_block(self._end_of_line())
        else:
            self._finish_block(self._end_of_lines(line_before=True))

    def on_message_complete(self) -> None:
        """Handle the end of a request, unless the parser stops before its body: _ignore_upgrade."""
        if self.parser.should_upgrade():
            return
        self._in_message = self._in_body = False
        self._arrival.stop()
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # answered before its body arrived: uvicorn would keep the connection forever
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Start the next request; the rest of a refused upload gets less time."""
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete:
            self._arrival.shorten(self.arrival_timeout_s)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self._unread.start()

    def pause_writing(self) -> None:
        """Pause writing until the client reads, at most for the stall timeout."""
        super().pause_writing()
        self._unread.start()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._unread.stop()
        super().resume_writing()

    def close_after_response(self) -> None:
        """Close the connection after its current response, if there is one.

        A response whose head is already built announced keep-alive. Closing after it would lose the
        client's next request.
        """
        if self._running is None or self.pipeline or self._running.response_started:
            return
        self._running.keep_alive = False

    def _use_host_of_target(self) -> None:
        """Replace ``Host`` with the host of an absolute target, which takes precedence (RFC 9112
        §3.2.2).

        ``GET http://evil.example/`` with an allowed ``Host`` passed MCP_PROXY_ALLOWED_HOSTS.
        """
        authority = _PATH_OR_QUERY.split(self.url.partition(_SCHEME_END)[2], 1)[0]
        if not self.url.startswith(b"/"):
            self.headers[:] = [
                (name, authority if name == b"host" else value) for name, value in self.headers
            ]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        cycle.transport = JoinedWrites(self.transport, cycle)  # type: ignore[assignment]
        if self.is_stopping():
            self.close_after_response()
        super()._start_asgi_task(cycle, app)

    def _end_of_line(self) -> int:
        return self._data.index(b"\n", self._offset) + 1

    def _end_of_lines(self, *, line_before: bool = False) -> int:
        """Return the offset after the blank line of a head, or of trailers with ``line_before``.

        Its four bytes can be split across reads.
        """
        known = len(self._tail)
        begin = 0 if self._block_bytes else max(0, known + self._offset - 2)
        found = (self._tail + self._data).index(_BLANK_LINE, begin)
        return found + len(_BLANK_LINE) - known

    def _finish_block(self, end: int) -> None:
        """Move past a head, chunk size line or trailers. Raises _Refused if these are too large."""
        if self._block_bytes + end - self._offset > MAX_HEAD_BYTES:
            raise _Refused(_TOO_LARGE)
        self._block_bytes, self._offset = 0, end

    def _refuse(self, cause: BaseException | None) -> None:
        """Refuse the request that stopped the parser; answer earlier requests."""
        is_ours = isinstance(cause, _Refused)
        reason = str(cause) if is_ours else "it is not HTTP"
        is_waited_for = bool(self.pipeline) or self._is_serving_another
        if is_waited_for and not self._in_body:
            self._close_after_last_response(reason)
        elif is_waited_for or is_ours or (self._in_body and self.cycle.response_started):
            self._drop_connection(reason)
        else:
            self.send_400_response("Invalid HTTP request received.")

    @property
    def _is_serving_another(self) -> bool:
        if self._in_body or self.cycle is None:
            return False
        return not self.cycle.response_complete

    def _on_arrival_timeout(self) -> None:
        if self.flow.read_paused:  # paused by us, not the client's fault
            self._arrival.start()
        else:
            self._drop_connection("it did not arrive in time")

    def _close_after_last_response(self, reason: str) -> None:
        """Stop reading, and close after the last request is answered."""
        log.warning("request.dropped", reason=reason)
        self._ignores_input = True
        self._arrival.stop()
        self.cycle.keep_alive = False
        self.cycle.on_response = self._finish_last_response
        self.flow.hold()

    def _finish_last_response(self) -> None:
        self.on_response_complete()
        self._unread.start()

    def _drop_connection(self, reason: str) -> None:
        if not self.transport.is_closing():
            log.warning("request.dropped", reason=reason)
        self._close_after_flush()

    def _close_after_flush(self) -> None:
        """Close the connection after the client has read all data, or after the stall timeout."""
        self._ignores_input = True
        if not self.transport.is_closing():
            self.transport.close()
            self._unread.start()
