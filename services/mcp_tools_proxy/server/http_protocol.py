"""uvicorn's HTTP protocol with the bounds that neither it nor httptools has."""

import asyncio

import httptools
import structlog
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mcp_tools_proxy.server.arrival_timer import ArrivalTimer
from mcp_tools_proxy.server.flow_control import PausableFlow
from mcp_tools_proxy.server.unread_watch import UnreadWatch
from mcp_tools_proxy.server.upgrade_header import parser_behind_head

log = structlog.get_logger()

ARRIVAL_TIMEOUT_S = 30.0
"""Seconds for a request to arrive with its body, from its first byte or the connection's begin."""

STALL_TIMEOUT_S = 60.0
"""Seconds in which a client has to read something of what waits for it."""

MAX_HEAD_BYTES = 64 * 1024
"""Largest request line with its headers; as much for the line before a chunk, and for trailers."""

MAX_HEADERS = 256
"""Headers of one request, and as many trailers: 64 KiB of the shortest took 0.7 MB."""

POLL_S = 1.0
"""Seconds between two looks whether a client is still there of which nothing is read."""

MAX_PENDING_REQUESTS = 8
"""Requests of one connection that were read and are not answered yet."""

READ_BYTES = 32 * 1024
"""What is parsed in one go: uvloop hands over up to 256 kB, which is 40,000 chunks of one byte."""

_BLANK_LINE = b"\r\n\r\n"
_SPACE = ord(" ")
_TOO_LARGE = "its head, a chunk's line or its trailers are too large"
_TOO_MANY = "it sends requests ahead without waiting for answers"


class _Refused(Exception):
    """Raised in a callback to stop the parser: nothing that follows is looked at."""


class BoundedProtocol(HttpToolsProtocol):
    """Bounds what one connection may send ahead, leave unread, and how long it may take.

    Hangs up on a request that is not there in time, on a head, a chunk's line or trailers over
    MAX_HEAD_BYTES or MAX_HEADERS, and on who reads nothing. At most MAX_UNANSWERED requests wait
    for their answers; one more ends the connection after those. Trailers are dropped: they would
    come as headers, and could name another tenant than the one that was checked.
    """

    arrival_timeout_s = ARRIVAL_TIMEOUT_S
    stall_timeout_s = STALL_TIMEOUT_S
    poll_s = POLL_S

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._arrival = ArrivalTimer(self.loop, self.arrival_timeout_s, self._end_late)
        self._running: RequestResponseCycle | None = None
        """What is being answered: ``cycle`` is the last request that was read."""
        self._rest = b""
        """What was read and is not parsed yet."""
        self._ended = False
        """Whether nothing more is taken from this connection."""
        self._data = self._tail = b""
        """What is being parsed, and the last three bytes before it."""
        self._at = 0
        """How far ``_data`` is known to be parsed."""
        self._block_bytes = 0
        """Bytes of a head, a chunk's line or trailers that came before ``_data``."""
        self._in_message = self._in_body = self._in_chunk = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.flow: PausableFlow = PausableFlow(
            transport, on_disconnect=self._end_at_once, poll_s=self.poll_s
        )
        self._unread = UnreadWatch(transport, self.stall_timeout_s)
        self._arrival.start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._rest = b""
        self._arrival.close()
        self._unread.stop()
        self.flow.stop_polling()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, at most READ_BYTES in one go."""
        if self._ended:
            return
        if self.timeout_keep_alive_task is not None:
            self._arrival.start()  # line ends alone begin no message, and would never time out
            self._unset_keepalive_if_required()
        if len(data) > READ_BYTES:
            data, self._rest = data[:READ_BYTES], data[READ_BYTES:]
            self.flow.hold()
            self.loop.call_soon(self._parse_rest)
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._data, self._at = data, 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(upgrade.args[0])
        except httptools.HttpParserError as error:
            self._refuse(error.__context__)
        else:
            if self._in_message:
                self._keep_place()
        self._data = b""

    def _ignore_upgrade(self, end: int) -> None:
        """Take what follows the head, which ends at ``end``, for its body and further requests."""
        data, self._data = self._data, self._data[:end]
        self._keep_place()
        self.parser, head = parser_behind_head(self, self.scope["headers"], self.parser)
        self.parser.feed_data(head)
        if len(data) > end:
            self._parse(data[end:])

    def _parse_rest(self) -> None:
        if self._ended or self.transport.is_closing():
            return
        data, self._rest = self._rest, b""
        if len(data) <= READ_BYTES:
            self.flow.release()
        self.data_received(data)

    def _keep_place(self) -> None:
        """Count what of a head, a chunk's line or trailers is there so far."""
        data = self._data
        self._block_bytes += len(data) - self._at
        self._tail = data[-3:] if len(data) >= 3 else (self._tail + data)[-3:]
        if self._block_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._refuse(_Refused(_TOO_LARGE))

    def on_message_begin(self) -> None:
        """Wait for the rest of a request that has begun. Raises _Refused for one too many."""
        if (
            len(self.pipeline) >= MAX_PENDING_REQUESTS - 1
        ):  # those that wait for the one that is served
            raise _Refused(_TOO_MANY)
        self._in_message, self._block_bytes = True, 0
        while self._data[self._at] < _SPACE:  # line ends, which a parser skips before a request
            self._at += 1
        super().on_message_begin()
        self._arrival.start()

    def on_headers_complete(self) -> None:
        """Take the head. Raises _Refused for one that is too large."""
        if self._block_bytes:
            self._end_block(self._end_of_lines())
        else:
            self._end_block(self._data.index(_BLANK_LINE, self._at) + len(_BLANK_LINE))
        if len(self.headers) > MAX_HEADERS:
            raise _Refused(_TOO_LARGE)
        super().on_headers_complete()
        self.headers = []  # the parser adds trailers here: no request has this list
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._at += len(body)
        self._in_chunk = True
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Take the line before a chunk. Raises _Refused for one that is too large."""
        self._end_block(self._end_of_line())
        self._in_chunk = False

    def on_chunk_complete(self) -> None:
        """Take the line end after a chunk, or all that follows the last one, which is empty."""
        if self._in_chunk:
            self._end_block(self._end_of_line())
        else:
            self._end_block(self._end_of_lines(line_before=True))

    def on_message_complete(self) -> None:
        """Have the whole request, unless the parser stops before a body: see _ignore_upgrade."""
        if self.parser.should_upgrade():
            return
        self._in_message = self._in_body = False
        self._arrival.stop()
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # answered before its body was there: uvicorn would keep the connection for ever
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long."""
        super().timeout_keep_alive_handler()
        self._unread.start()

    def pause_writing(self) -> None:
        """Wait for the client to read, but not for ever."""
        super().pause_writing()
        self._unread.start()

    def resume_writing(self) -> None:
        """Write on."""
        self._unread.stop()
        super().resume_writing()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _end_of_line(self) -> int:
        return self._data.index(b"\n", self._at) + 1

    def _end_of_lines(self, *, line_before: bool = False) -> int:
        """Return where the blank line ends that ends a head, or trailers after the ``line_before``.

        The four bytes of it may have come in several reads.
        """
        known = len(self._tail)
        begin = 0 if self._block_bytes else max(0, known + self._at - 2)
        found = (self._tail + self._data).index(_BLANK_LINE, begin)
        return found + len(_BLANK_LINE) - known

    def _end_block(self, end: int) -> None:
        """Go on behind a head, a chunk's line or trailers. Raises _Refused for too large ones."""
        if self._block_bytes + end - self._at > MAX_HEAD_BYTES:
            raise _Refused(_TOO_LARGE)
        self._block_bytes, self._at = 0, end

    def _refuse(self, cause: BaseException | None) -> None:
        """Refuse what the parser stopped at; whatever was asked before it is still answered."""
        is_ours = isinstance(cause, _Refused)
        reason = str(cause) if is_ours else "it is not HTTP"
        is_waited_for = bool(self.pipeline) or self._is_serving_another
        if is_waited_for and not self._in_body:
            self._end_after_answers(reason)
        elif is_waited_for or is_ours or (self._in_body and self.cycle.response_started):
            self._hang_up(reason)
        else:
            self.send_400_response("Invalid HTTP request received.")

    @property
    def _is_serving_another(self) -> bool:
        """Whether a request that came before the one that is arriving waits for its answer."""
        if self._in_body or self.cycle is None:
            return False
        return not self.cycle.response_complete

    def _end_late(self) -> None:
        if self.flow.read_paused:  # it is our turn: the rest is not read before others are answered
            self._arrival.start()
        else:
            self._hang_up("it did not arrive in time")

    def _end_after_answers(self, reason: str) -> None:
        """Read no more, and close when the last request that was read is answered."""
        log.warning("request.dropped", reason=reason)
        self._ended = True
        self._arrival.stop()
        self.cycle.keep_alive = False
        self.cycle.on_response = self._end
        self.flow.hold()

    def _end(self) -> None:
        self.on_response_complete()
        self._unread.start()

    def _hang_up(self, reason: str) -> None:
        if not self.transport.is_closing():
            log.warning("request.dropped", reason=reason)
        self._end_at_once()

    def _end_at_once(self) -> None:
        """Close the connection as soon as what was written is read."""
        self._ended = True
        if not self.transport.is_closing():
            self.transport.close()
            self._unread.start()
