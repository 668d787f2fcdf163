"""Reads the forms of pages: their fields at once, a file by whoever takes it, as it arrives.

Neither the memory nor the disk has more of a file than one piece of what arrived, so a form that is
refused by its fields costs nothing, however large its file is.
"""

import asyncio
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from mcp_tools_proxy.domain.errors import InvalidRequest, PayloadTooLarge
from mcp_tools_proxy.http.body import read_body

MAX_FIELDS = 2_000

MAX_LINES = 10_000
"""Lines of one field; a page of 240,000 roles kept other calls waiting for 0.3 s."""

MAX_AT_ONCE_BYTES = 64 * 1024
"""A larger form is parsed in a thread: 1 MiB of percent-encoded text takes 0.1 s."""

FORM_TYPE = "application/x-www-form-urlencoded"

_UNREADABLE = "the form could not be read; go back and submit it again"

_CUT_SHORT = "the upload was incomplete; upload the file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileField:
    """The file of a form: its ``name`` is "" where none was chosen.

    ``receive`` has its content, once, as the body of a request.
    """

    name: str
    receive: Receive


class Form:
    """The fields of a form; a field may be there several times."""

    def __init__(
        self, fields: Sequence[tuple[str, str]] = (), file: FileField | None = None
    ) -> None:
        self.file = file
        self._fields: Mapping[str, list[str]] = {}
        collected: dict[str, list[str]] = {}
        for name, value in fields:
            collected.setdefault(name, []).append(value)
        self._fields = collected

    def text(self, name: str) -> str:
        """Return a field without blanks around it; "" if it is not there."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """Return a field as it was typed, the last of several; "" if it is not there."""
        return self._fields.get(name, [""])[-1]

    def texts(self, name: str) -> list[str]:
        """Return every value of a field that is not blank."""
        return [value.strip() for value in self._fields.get(name, ()) if value.strip()]

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field, where commas end lines as well, without blank ones.

        Only what a browser makes of the end of a line is one: ids may have other separators. Raises
        InvalidRequest for too many.
        """
        parts = re.split("[\r\n,]", self.raw(name))
        found = [part.strip() for part in parts if part.strip()]
        if len(found) > MAX_LINES:
            raise InvalidRequest(f"{name}: more than {MAX_LINES} lines; enter fewer")
        return found

    def items(self) -> list[tuple[str, str]]:
        """Return the fields with their values, the last of several, in their order."""
        return [(name, values[-1]) for name, values in self._fields.items()]

    def names(self) -> list[str]:
        """Return the names of the fields, in their order."""
        return [*self._fields]


async def read_form(request: Request, max_bytes: int) -> Form:
    """Read a form. Raises PayloadTooLarge, ClientDisconnect, InvalidRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise InvalidRequest("the request is not a form; go back and submit the form again")
    body = await read_body(request.receive, max_bytes)
    try:
        if len(body) <= MAX_AT_ONCE_BYTES:
            return Form(_fields_of(body))
        return Form(await asyncio.to_thread(_fields_of, body))
    except ValueError:
        raise InvalidRequest("the form could not be read; go back and submit it again") from None


def _fields_of(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(
        body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
    )


class _Event(Enum):
    HEAD = auto()
    DATA = auto()
    END = auto()


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
