"""Parses forms; files are streamed.

At most one received piece of a file is in memory, and none on disk, so refusing a form for its
fields costs the same for files of any size.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum, auto
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from mcp_tools_proxy.domain.errors import InvalidRequest, PayloadTooLarge
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.body import read_body

MAX_FIELDS = 2_000

MAX_LINES = 10_000
"""Lines per field; a page with 240,000 roles delayed other calls by 0.3 s."""

MAX_AT_ONCE_BYTES = 64 * 1024
"""Larger forms are parsed in a thread: 1 MiB of percent-encoded text takes 0.1 s."""

FORM_TYPE = "application/x-www-form-urlencoded"

_UNREADABLE = "the form could not be read; go back and submit it again"

_CUT_SHORT = "the upload was incomplete; upload the file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileField:
    """The file of a form; ``name`` is "" if none was selected.

    ``receive`` returns its content once, as the body of a request.
    """

    name: str
    receive: Receive


class Form:
    """The fields of a form; names can repeat. ``next_file`` returns the file after ``file``."""

    def __init__(
        self,
        fields: Sequence[tuple[str, str]] = (),
        file: FileField | None = None,
        next_file: Callable[[], Awaitable[FileField | None]] | None = None,
    ) -> None:
        self.file = file
        self.next_file = next_file or _no_file
        self._fields: Mapping[str, list[str]] = {}
        collected: dict[str, list[str]] = {}
        for name, value in fields:
            collected.setdefault(name, []).append(value)
        self._fields = collected

    def text(self, name: str) -> str:
        """Return a field without surrounding blanks; "" if it is missing."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """Return the last value of a field unchanged; "" if it is missing."""
        return self._fields.get(name, [""])[-1]

    def texts(self, name: str) -> list[str]:
        """Return the values of a field that are not blank."""
        return [value.strip() for value in self._fields.get(name, ()) if value.strip()]

    def lines(self, name: str) -> list[str]:
        """Return the non-blank lines of a field; commas also separate lines.

        Only CR and LF end lines, because ids can contain other separators. Raises InvalidRequest if
        there are too many lines.
        """
        parts = re.split("[\r\n,]", self.raw(name))
        found = [part.strip() for part in parts if part.strip()]
        if len(found) > MAX_LINES:
            raise InvalidRequest(f"{name}: more than {MAX_LINES} lines; enter fewer")
        return found

    def items(self) -> list[tuple[str, str]]:
        """Return the fields in order, each with its last value."""
        return [(name, values[-1]) for name, values in self._fields.items()]

    def names(self) -> list[str]:
        """Return the field names in order."""
        return [*self._fields]


async def _no_file() -> FileField | None:
    return None


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
    """Parses a multipart body on demand: nothing is received while parsed events remain."""

    def __init__(self, receive: Receive, content_type: str) -> None:
        """Raise InvalidRequest if the boundary is missing or too long."""
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
        """Return the next event; None at the end. Raises ClientDisconnect, InvalidRequest."""
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
        """Discard the remaining body, and return the disconnect message."""
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
    """Read the fields before the file, whose content remains to be read.

    Fields after the file are ignored. Raises PayloadTooLarge if the fields exceed ``max_bytes``,
    ClientDisconnect, InvalidRequest.
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
                part = _FilePart(parts)
                file = FileField(name=file_name, receive=part.receive)
                return Form(fields, file, part.next_file)
            value.clear()
        elif event is _Event.DATA:
            value += data
        else:
            fields.append((name, _text(value)))
    return Form(fields)


class _FilePart:
    """A part with the content of a file."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self._is_over = False

    async def receive(self) -> Message:
        """Return the file's content as a request body, like an ASGI ``receive``.

        Raises InvalidRequest if the form ends within the file.
        """
        if self._is_over:
            return await self._parts.wait_for_disconnect()
        found = await self._parts.next()
        if found is None:
            raise InvalidRequest(_CUT_SHORT)
        event, data = found
        self._is_over = event is _Event.END
        return {"type": "http.request", "body": data, "more_body": not self._is_over}

    async def next_file(self) -> FileField | None:
        """Return the next file of the form, without the rest of this one."""
        while not self._is_over:
            await self.receive()
        while (found := await self._parts.next()) is not None:
            event, data = found
            name = _names_in(data)[1] if event is _Event.HEAD else None
            if name is not None:
                self._is_over = False
                return FileField(name=name, receive=self.receive)
        return None


def _names_in(disposition: bytes) -> tuple[str, str | None]:
    """Return the name of a field and its file name, or None for a field without a file."""
    options = parse_options_header(disposition)[1]
    file_name = options.get(b"filename")
    return _text(options.get(b"name", b"")), None if file_name is None else _text(file_name)


def _text(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except ValueError:
        raise InvalidRequest(_UNREADABLE) from None
