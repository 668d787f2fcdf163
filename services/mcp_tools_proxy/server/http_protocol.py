"""uvicorn's HTTP protocol with the bounds that neither uvicorn nor httptools has.

Without them a client can hold memory and connections for ever: by heads and chunk lines of any
size, by requests that never end, by responses that it does not read, by pipelining.
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
    """The callbacks of ``protocol``, silent for the first head: the protocol had that already."""

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
        """Forward every callback from now on."""
        if self._is_behind:
            self._protocol.on_headers_complete()
        self._is_behind = True


def parser_behind_head(
    protocol: object,
    headers: Iterable[tuple[bytes, bytes]],
    head_parser: httptools.HttpRequestParser,
) -> tuple[httptools.HttpRequestParser, bytes]:
    """Return a parser for what follows the head of ``headers``, and the bytes to feed to it first.

    ``head_parser``, which parsed that head, takes the body for the new protocol, and the bytes of
    the next read for a new request. So a body would become a request of its own, with headers that
    no proxy in front has seen (request smuggling). Java's HTTP client offers h2c with each first
    POST, so such requests cannot be refused either.
    """
    parser = httptools.HttpRequestParser(_BehindHead(protocol))
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
    keeps_alive = head_parser.should_keep_alive()
    lines = [b"POST / HTTP/%b" % head_parser.get_http_version().encode()]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name in _FRAMING]
    lines.append(b"connection: keep-alive" if keeps_alive else b"connection: close")
    return parser, b"\r\n".join([*lines, b"", b""])


log = structlog.get_logger()

ARRIVAL_TIMEOUT_S = 30.0
"""Seconds for a request to arrive with its body, from its first byte or the connection's start."""

UPLOAD_TIMEOUT_S = 120.0
"""Seconds for an upload to arrive after its head: 64 MB in the time of an office's connection."""

STALL_TIMEOUT_S = 60.0
"""Seconds in which a client has to read some of the data that waits for it."""

MAX_HEAD_BYTES = 64 * 1024
"""Largest request line with its headers; also the limit of a chunk's size line and of trailers."""

MAX_HEADERS = 256
"""Headers of one request, and as many trailers: 64 KiB of the shortest ones took 0.7 MB."""

POLL_S = 1.0
"""Seconds between two checks whether a client is still connected while it is not read from."""

MAX_PENDING_REQUESTS = 8
"""Pending requests of one connection (HTTP pipelining)."""

READ_BYTES = 32 * 1024
"""Bytes that are parsed in one go: uvloop passes up to 256 kB, which is 40,000 one-byte chunks, and
parsing them at once would block the event loop."""

_SCHEME_END = b"://"
_PATH_OR_QUERY = re.compile(rb"[/?#]")
_BLANK_LINE = b"\r\n\r\n"
_SPACE = ord(" ")
_TOO_LARGE = "its head, a chunk's line or its trailers are too large"
_TOO_MANY = "it sends requests ahead without waiting for answers"


class _Refused(Exception):
    """Raised in a callback to stop the parser: the bytes that follow are not parsed."""


class BoundedProtocol(HttpToolsProtocol):
    """Bounds what one connection may send ahead and leave unread, and how long a request may take.

    The connection is closed for a request that does not arrive in time, for a head, a chunk's size
    line or trailers over MAX_HEAD_BYTES or MAX_HEADERS, and for a client that reads nothing. A
    request beyond MAX_PENDING_REQUESTS closes it after the pending ones are answered. Trailers are
    dropped: httptools would append them to the headers, where they could name another tenant than
    the one that was checked.
    """

    arrival_timeout_s = ARRIVAL_TIMEOUT_S
    upload_timeout_s = UPLOAD_TIMEOUT_S
    uploads: Collection[tuple[str, str]] = ()
    """Method and path of requests whose body has ``upload_timeout_s`` to arrive."""
    is_stopping: Callable[[], bool] = staticmethod(lambda: False)
    """Whether each further response closes its connection."""
    stall_timeout_s = STALL_TIMEOUT_S
    poll_s = POLL_S

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._arrival = ArrivalTimer(self.loop, self.arrival_timeout_s, self._on_arrival_timeout)
        self._running: RequestResponseCycle | None = None
        """The request that is being served, while ``cycle`` is the last one that was read."""
        self._unparsed = b""
        """Bytes that were read and are not parsed yet."""
        self._ignores_input = False
        """Whether further bytes of this connection are ignored."""
        self._data = self._tail = b""
        """The bytes that are being parsed, and the last three bytes before them."""
        self._offset = 0
        """Offset in ``_data`` up to which parsing is known to have come."""
        self._block_bytes = 0
        """Bytes of an unfinished head, chunk size line or trailers that came before ``_data``."""
        self._in_message = self._in_body = self._in_chunk = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self.flow: PausableFlow = PausableFlow(
            transport, on_disconnect=self._close_after_flush, poll_s=self.poll_s
        )
        self._unread = UnreadWatch(transport, self.stall_timeout_s)
        self._arrival.start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and tell the running request that its client has disconnected."""
        self._unparsed = b""
        self._arrival.close()
        self._unread.stop()
        self.flow.stop_polling()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the received bytes, at most READ_BYTES in one go."""
        if self._ignores_input:
            return
        if self.timeout_keep_alive_task is not None:
            self._arrival.start()  # line ends alone begin no message, and would never time out
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
        """Parse the bytes behind ``end``, the end of a head, as HTTP."""
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
        """Count the bytes so far of an unfinished head, chunk size line or trailers."""
        data = self._data
        self._block_bytes += len(data) - self._offset
        self._tail = data[-3:] if len(data) >= 3 else (self._tail + data)[-3:]
        if self._block_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._refuse(_Refused(_TOO_LARGE))

    def on_message_begin(self) -> None:
        """Start to wait for the rest of a request. Raises _Refused for one too many."""
        # the request that is being served is not in the pipeline
        if len(self.pipeline) >= MAX_PENDING_REQUESTS - 1:
            raise _Refused(_TOO_MANY)
        self._in_message, self._block_bytes = True, 0
        while self._data[self._offset] < _SPACE:  # a blank line before the request, to be skipped
            self._offset += 1
        super().on_message_begin()
        self._arrival.start()

    def on_headers_complete(self) -> None:
        """Handle a complete head. Raises _Refused for one that is too large."""
        if self._block_bytes:
            self._finish_block(self._end_of_lines())
        else:
            self._finish_block(self._data.index(_BLANK_LINE, self._offset) + len(_BLANK_LINE))
        if len(self.headers) > MAX_HEADERS:
            raise _Refused(_TOO_LARGE)
        if _SCHEME_END in self.url:
            self._use_host_of_target()
        super().on_headers_complete()
        self.headers = []  # the parser adds trailers here: no request has this list
        if self.uploads and (self.scope["method"], self.scope["path"]) in self.uploads:
            self._arrival.extend(self.upload_timeout_s)
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body."""
        self._offset += len(body)
        self._in_chunk = True
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Handle a chunk's size line. Raises _Refused for one that is too large."""
        self._finish_block(self._end_of_line())
        self._in_chunk = False

    def on_chunk_complete(self) -> None:
        """Handle the end of a chunk; of the last one, which is empty, the trailers."""
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
            # answered before its body had arrived: uvicorn would keep the connection for ever
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Start what waits behind a response; the rest of a refused upload has less time."""
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete:
            self._arrival.shorten(self.arrival_timeout_s)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long."""
        super().timeout_keep_alive_handler()
        self._unread.start()

    def pause_writing(self) -> None:
        """Pause writing until the client reads, at most for the stall time-out."""
        super().pause_writing()
        self._unread.start()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._unread.stop()
        super().resume_writing()

    def close_after_response(self) -> None:
        """Close the connection after the response that it waits for, if it waits for one.

        A response whose head is built said that the connection stays open: closed behind it, the
        client's next request is lost.
        """
        if self._running is None or self.pipeline or self._running.response_started:
            return
        self._running.keep_alive = False

    def _use_host_of_target(self) -> None:
        """Replace ``Host`` by the host of an absolute target, which counts (RFC 9112 §3.2.2).

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
        """Return the offset behind the blank line of a head, or of trailers with ``line_before``.

        Its four bytes may have come in several reads.
        """
        known = len(self._tail)
        begin = 0 if self._block_bytes else max(0, known + self._offset - 2)
        found = (self._tail + self._data).index(_BLANK_LINE, begin)
        return found + len(_BLANK_LINE) - known

    def _finish_block(self, end: int) -> None:
        """Move behind a head, chunk size line or trailers. Raises _Refused for too large ones."""
        if self._block_bytes + end - self._offset > MAX_HEAD_BYTES:
            raise _Refused(_TOO_LARGE)
        self._block_bytes, self._offset = 0, end

    def _refuse(self, cause: BaseException | None) -> None:
        """Refuse the request at which the parser stopped; requests before it are still answered."""
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
        """Whether a request before the arriving one is pending."""
        if self._in_body or self.cycle is None:
            return False
        return not self.cycle.response_complete

    def _on_arrival_timeout(self) -> None:
        if self.flow.read_paused:  # reading is paused by us: not the client's fault
            self._arrival.start()
        else:
            self._drop_connection("it did not arrive in time")

    def _close_after_last_response(self, reason: str) -> None:
        """Stop reading, and close when the last request that was read is answered."""
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
        """Close the connection once the client has read all data, or after the stall time-out."""
        self._ignores_input = True
        if not self.transport.is_closing():
            self.transport.close()
            self._unread.start()
