"""Imports messages of Outlook (MSG) with olefile (extra formats)."""

import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    NO_FORMATS,
    ImportFailed,
    ImportOptions,
    one_line,
)
from mcp_tools_proxy.documents.importers.mail import MailContent, mail_document
from mcp_tools_proxy.documents.importers.rtf import RtfReader
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.domain.document import Document

if TYPE_CHECKING:
    from olefile import OleFileIO

_SUBJECT, _BODY, _HTML, _RTF, _DISPLAY_TO, _DISPLAY_CC = 0x37, 0x1000, 0x1013, 0x1009, 0xE04, 0xE03
_SENDER_NAME, _SENDER_SMTP, _SENDER_ADDRESS = 0xC1A, 0x5D01, 0xC1F
_SENT, _DELIVERED = 0x39, 0xE06
_NAME, _SMTP, _ADDRESS, _RECIPIENT_TYPE = 0x3001, 0x39FE, 0x3003, 0xC15
_LONG_FILE_NAME, _FILE_NAME, _IS_HIDDEN = 0x3707, 0x3704, 0x7FFE
_CODE_PAGES = (0x3FDE, 0x3FFD)
"""Numbers of properties."""

_ENCODINGS = {65001: "utf-8", 20127: "ascii", 28591: "iso-8859-1", 20866: "koi8-r"}

_TEXT, _BYTE_TEXT, _BINARY = 0x1F, 0x1E, 0x102
_ROOT_HEADER, _PART_HEADER = 32, 8
_KINDS = {1: "To", 2: "Cc", 3: "Bcc"}
_FILE_TIME_START = datetime(1601, 1, 1, tzinfo=UTC)
_MAX_PARTS = 1000

_NOT_PACKED = 0x414C454D
_MAX_RTF_BYTES = 64 * 1024 * 1024
_RTF_START = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
"""The text that precedes each compressed one."""


def import_msg(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a message of Outlook. Raises ImportFailed."""
    try:
        from olefile import OleFileIO  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportFailed(NO_FORMATS) from error
    try:
        with OleFileIO(BytesIO(data)) as file:
            content = _content(_Properties(file, "", _ROOT_HEADER, options), options)
    except (OSError, ValueError, IndexError, struct.error, RecursionError) as error:
        raise ImportFailed("is not a readable Outlook message: save it again in Outlook") from error
    if not content.headers and not any(map(any, content.bodies)):
        raise ImportFailed(EMPTY)
    return mail_document(content, options)


class _Properties:
    """The properties of a message, recipient or attachment."""

    def __init__(
        self, file: "OleFileIO", folder: str, header_bytes: int, options: ImportOptions
    ) -> None:
        self._file = file
        self._options = options
        self._folder = f"{folder}/" if folder else ""
        self._fixed = dict(self._read_fixed(header_bytes))
        pages = (self.number(it) for it in _CODE_PAGES)
        self._encoding = next((_ENCODINGS.get(it, f"cp{it}") for it in pages if it), None)

    def _read_fixed(self, start: int) -> Iterator[tuple[int, bytes]]:
        stream = self._stream("__properties_version1.0")
        for at in range(start, len(stream) - 15, 16):
            yield struct.unpack_from("<H", stream, at + 2)[0], stream[at + 8 : at + 16]

    def _stream(self, name: str) -> bytes:
        path = f"{self._folder}{name}"
        if not self._file.exists(path):
            return b""
        with self._file.openstream(path) as stream:
            content: bytes = stream.read()
        return content

    def number(self, number: int) -> int:
        """Return a whole number, or 0."""
        return int(struct.unpack_from("<I", self._fixed.get(number, bytes(8)))[0])

    def moment(self, number: int) -> datetime | None:
        """Return a point in time."""
        ticks = struct.unpack_from("<Q", self._fixed.get(number, bytes(8)))[0]
        try:
            return _FILE_TIME_START + timedelta(microseconds=ticks // 10) if ticks else None
        except OverflowError:
            return None

    def binary(self, number: int) -> bytes:
        """Return the bytes of a property."""
        return self._stream(f"__substg1.0_{number:04X}{_BINARY:04X}")

    def text(self, number: int) -> str:
        """Return the text of a property, with the encoding that the message names."""
        if wide := self._stream(f"__substg1.0_{number:04X}{_TEXT:04X}"):
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(f"__substg1.0_{number:04X}{_BYTE_TEXT:04X}").rstrip(b"\0")
        return decode_text(narrow, self._options, declared=self._encoding).text

    def parts(self, start: str) -> "Iterator[_Properties]":
        """Yield the properties of recipients or attachments."""
        names = {it[0] for it in self._file.listdir(streams=False, storages=True)}
        for name in sorted(it for it in names if it.startswith(start))[:_MAX_PARTS]:
            yield _Properties(self._file, name, _PART_HEADER, self._options)


def _content(message: _Properties, options: ImportOptions) -> MailContent:
    sent = message.moment(_SENT) or message.moment(_DELIVERED)
    headers = {name: one_line(it) for name, it in _headers(message, sent).items()}
    content = MailContent(
        headers={name: it for name, it in headers.items() if it},
        date=sent.date().isoformat() if sent else None,
        bodies=[_body(message, options)],
    )
    for it in message.parts("__attach_version1.0_#"):
        name = it.text(_LONG_FILE_NAME) or it.text(_FILE_NAME) or it.text(_NAME)
        if name and not it.number(_IS_HIDDEN) & 1:
            content.attachments.append(one_line(name))
    return content


def _headers(message: _Properties, sent: datetime | None) -> Mapping[str, str]:
    recipients: dict[str, list[str]] = {}
    for it in message.parts("__recip_version1.0_#"):
        kind = _KINDS.get(it.number(_RECIPIENT_TYPE) & 3, "To")
        address = it.text(_SMTP) or it.text(_ADDRESS)
        recipients.setdefault(kind, []).append(_person(it.text(_NAME), address))
    sender = message.text(_SENDER_SMTP) or message.text(_SENDER_ADDRESS)
    return {
        "From": _person(message.text(_SENDER_NAME), sender),
        "To": ", ".join(recipients.get("To", ())) or message.text(_DISPLAY_TO),
        "Cc": ", ".join(recipients.get("Cc", ())) or message.text(_DISPLAY_CC),
        "Bcc": ", ".join(recipients.get("Bcc", ())),
        "Date": f"{sent:%Y-%m-%d %H:%M} UTC" if sent else "",
        "Subject": message.text(_SUBJECT),
    }


def _body(message: _Properties, options: ImportOptions) -> tuple[str, str]:
    """Return the text as it is, and as HTML, which is read from RTF if it is missing."""
    plain = message.text(_BODY).replace("\r\n", "\n")
    if content := message.binary(_HTML):
        return plain, decode_text(content, options).text
    html = message.text(_HTML)
    packed = message.binary(_RTF)
    if not packed or html:
        return plain, html
    try:
        text = _unpacked(packed).decode("latin-1")
        return plain, RtfReader(text, with_notes=options.with_notes).html()
    except (ImportFailed, struct.error, IndexError):
        if plain.strip():
            return plain, ""
        raise


def _unpacked(packed: bytes) -> bytes:
    """Return compressed RTF, which refers to the last 4096 bytes (MS-OXRTFCP)."""
    _, size, mark = struct.unpack_from("<III", packed)
    if mark == _NOT_PACKED:
        return packed[16 : 16 + size]
    found = bytearray(_RTF_START)
    most = len(_RTF_START) + min(size, _MAX_RTF_BYTES)
    at = 16
    while at < len(packed) and len(found) < most:
        flags = packed[at]
        at += 1
        for bit in range(8):
            if not flags >> bit & 1:
                found += packed[at : at + 1]
                at += 1
                continue
            if at + 2 > len(packed):
                break
            place, length = divmod(int.from_bytes(packed[at : at + 2], "big"), 16)
            at += 2
            if place == len(found) % 4096:  # the end
                return bytes(found[len(_RTF_START) :])
            start = len(found) - ((len(found) - place - 1) % 4096 + 1)
            for step in range(length + 2):
                found.append(found[start + step] if 0 <= start + step < len(found) else 0)
    return bytes(found[len(_RTF_START) :])


def _person(name: str, address: str) -> str:
    """Return a name with its address, unless that is one of Exchange's own."""
    if "@" not in address or address == name:
        return name or address
    return f"{name} <{address}>" if name else address
