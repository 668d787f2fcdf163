"""Reads forms with a file as they arrive: the fields at once, the file by whoever takes it.

Neither the memory nor the disk has more of a file than one piece of what arrived, so a form that is
refused by its fields costs nothing, however large its file is.
"""

from collections import deque
from enum import Enum, auto

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from mcp_tools_proxy.console.forms import MAX_FIELDS, FileField, Form
from mcp_tools_proxy.domain.errors import InvalidRequest, PayloadTooLarge

FILE_FORM_TYPE = "multipart/form-data"

_UNREADABLE = "the form could not be read; go back and submit it again"
_CUT_SHORT = "the upload was incomplete; upload the file again"


class _Event(Enum):
    HEAD = auto()
    DATA = auto()
    END = auto()


async def read_file_form(request: Request, max_bytes: int) -> Form:
    """Read the fields of a form up to its file, whose content is left to be read.

    Fields that come behind the file are ignored. Raises PayloadTooLarge for fields of over
    ``max_bytes``, ClientDisconnect, InvalidRequest.
    """
    parts = _Parts(request.receive, request.headers.get("content-type", ""))
    fields: list[tuple[str, str]] = []
    name, value, size = "", bytearray(), 0
    while (found := await parts.next()) is not None:
        event, data = found
        size += len(data)
        if size > max_bytes or len(fields) > MAX_FIELDS:
            raise PayloadTooLarge(f"the fields of this form exceed {max_bytes} bytes")
        if event is _Event.HEAD:
            name, file_name = _names_in(data)
            if file_name is not None:
                return Form(fields, FileField(name=file_name, receive=_file_content(parts)))
            value.clear()
        elif event is _Event.DATA:
            value += data
        else:
            fields.append((name, _text(value)))
    return Form(fields)


class _Parts:
    """Takes a body apart as it arrives: no more is read while something is left to be taken."""

    def __init__(self, receive: Receive, content_type: str) -> None:
        """Raise InvalidRequest for a type without a boundary, or with one that is too long."""
        self._receive = receive
        self._events: deque[tuple[_Event, bytes]] = deque()
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._is_read = False
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise InvalidRequest(_UNREADABLE)
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_header_field": lambda data, start, end: self._header.extend(
                        data[start:end]
                    ),
                    "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_head,
                    "on_part_data": lambda data, start, end: self._add(
                        _Event.DATA, data[start:end]
                    ),
                    "on_part_end": lambda: self._add(_Event.END),
                },
            )
        except FormParserError:
            raise InvalidRequest(_UNREADABLE) from None

    async def next(self) -> tuple[_Event, bytes] | None:
        """Return what comes next; None at the end. Raises ClientDisconnect, InvalidRequest."""
        while not self._events:
            if self._is_read:
                return None
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._is_read = not message.get("more_body", False)
            try:
                self._parser.write(message.get("body", b""))
            except FormParserError:
                raise InvalidRequest(_UNREADABLE) from None
        return self._events.popleft()

    async def wait_for_disconnect(self) -> Message:
        """Drop what is left of the body, and return what tells that the browser has gone."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return message

    def _add(self, event: _Event, data: bytes = b"") -> None:
        self._events.append((event, data))

    def _end_header(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _end_head(self) -> None:
        self._add(_Event.HEAD, self._disposition)
        self._disposition = b""


def _file_content(parts: _Parts) -> Receive:
    """Return what receives the content of a file as the body of a request of its own.

    It raises InvalidRequest for a form that ends within the file.
    """
    is_over = False

    async def receive() -> Message:
        nonlocal is_over
        if is_over:
            return await parts.wait_for_disconnect()
        found = await parts.next()
        if found is None:
            raise InvalidRequest(_CUT_SHORT)
        event, data = found
        is_over = event is _Event.END
        return {"type": "http.request", "body": data, "more_body": not is_over}

    return receive


def _names_in(disposition: bytes) -> tuple[str, str | None]:
    """Return the name of a field, and that of its file, if it has one."""
    options = parse_options_header(disposition)[1]
    file_name = options.get(b"filename")
    return _text(options.get(b"name", b"")), None if file_name is None else _text(file_name)


def _text(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except ValueError:
        raise InvalidRequest(_UNREADABLE) from None
