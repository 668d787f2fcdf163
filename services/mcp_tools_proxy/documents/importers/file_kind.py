"""Finds the kind of a file by its content; the suffix decides only among kinds of text."""

import json
import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from io import BytesIO
from typing import BinaryIO, Final
from zipfile import BadZipFile, ZipFile

from mcp_tools_proxy.documents.importers.base import EMPTY, NO_FORMATS, ImportFailed
from mcp_tools_proxy.documents.importers.text_encoding import decode_wide
from mcp_tools_proxy.documents.importers.text_form import is_markdown, is_table, start_of

HEAD_BYTES = 4096
"""Enough of a file for ``may_need_ocr`` and ``kind_of_start``."""


class FileKind(StrEnum):
    """A kind of file that can be imported, named by its usual suffix."""

    PDF = ".pdf"
    MARKDOWN = ".md"
    TEXT = ".txt"
    HTML = ".html"
    CSV = ".csv"
    JSON = ".json"
    JSON_LINES = ".jsonl"
    DOCX = ".docx"
    XLSX = ".xlsx"
    PPTX = ".pptx"
    XLS = ".xls"
    ODT = ".odt"
    ODS = ".ods"
    EPUB = ".epub"
    RTF = ".rtf"
    EML = ".eml"
    MSG = ".msg"
    PICTURE = ".png"


KINDS: Final[Mapping[str, FileKind]] = {
    **{kind.value: kind for kind in FileKind},
    ".markdown": FileKind.MARKDOWN,
    ".text": FileKind.TEXT,
    ".htm": FileKind.HTML,
    ".xhtml": FileKind.HTML,
    ".tsv": FileKind.CSV,
    ".tab": FileKind.CSV,
    ".ndjson": FileKind.JSON_LINES,
    **dict.fromkeys((".docm", ".dotx", ".dotm"), FileKind.DOCX),
    **dict.fromkeys((".xlsm", ".xltx", ".xltm", ".xlsb"), FileKind.XLSX),
    **dict.fromkeys((".pptm", ".potx", ".potm", ".ppsx", ".ppsm"), FileKind.PPTX),
    ".xlt": FileKind.XLS,
    ".ott": FileKind.ODT,
    ".ots": FileKind.ODS,
    ".mht": FileKind.EML,
    ".mhtml": FileKind.EML,
    **dict.fromkeys((".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".gif", ".bmp"), FileKind.PICTURE),
}
"""The kinds by suffix."""

_TEXTS = {
    FileKind.MARKDOWN,
    FileKind.TEXT,
    FileKind.HTML,
    FileKind.CSV,
    FileKind.JSON,
    FileKind.JSON_LINES,
    FileKind.EML,
}
"""Kinds that are text without marks of their own, for which the suffix decides."""

_PICTURES = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    *(b"GIF87a", b"GIF89a"),
    *(b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")

_PROGRAM = "is a program: choose a document"
_ARCHIVE = "is an archive: unpack it, and import the files in it"
_RECORDING = "is a recording without text: import its transcript"
_APPLE = "is an Apple Pages, Numbers or Keynote file: export it as DOCX, XLSX, PPTX or PDF"
_PROTECTED = "has a password: save it without one"
_DAMAGED_ZIP = "is damaged, or was cut short: copy it again, or save it again in its program"

_REFUSED: Sequence[tuple[int, bytes, str]] = (
    *((0, mark, _PROGRAM) for mark in (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")),
    *((0, mark, _ARCHIVE) for mark in (b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")),
    *((0, mark, _ARCHIVE) for mark in (b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd")),
    (257, b"ustar", _ARCHIVE),
    *((0, mark, _RECORDING) for mark in (b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3")),
    *((8, mark, _RECORDING) for mark in (b"WAVE", b"AVI ")),
    *(
        (4, b"ftyp" + brand, "is a HEIF picture: save it as JPEG or PNG")
        for brand in (b"heic", b"heix", b"mif1", b"avif")
    ),
    (4, b"ftyp", _RECORDING),
    (0, b"SQLite format 3\x00", "is a database: export its tables as CSV"),
    (0, b"\x00\x01\x00\x00Standard ", "is a database: export its tables as CSV"),
    (0, b"%!PS", "is PostScript: convert it to PDF"),
    (0, b"\xc5\xd0\xd3\xc6", "is PostScript: convert it to PDF"),
    (0, b"AT&TFORM", "is a DjVu file: convert it to PDF"),
    (60, b"BOOKMOBI", "is a Kindle book: convert it to EPUB"),
    (0, b"\xffWPC", "is a WordPerfect file: save it as DOCX"),
)
"""Kinds that are recognised but not read: offset, mark, reason."""

_OLE_STREAMS: Sequence[tuple[str, FileKind | str]] = (
    ("EncryptedPackage", _PROTECTED),
    ("WordDocument", "is an old .doc file: save it as .docx"),
    ("PowerPoint Document", "is an old .ppt file: save it as .pptx"),
    ("__properties_version1.0", FileKind.MSG),
    ("Workbook", FileKind.XLS),
    ("Book", FileKind.XLS),
    ("VisioDocument", "is a Visio drawing: export it as PDF"),
    ("Quill", "is a Publisher file: export it as PDF"),
)
"""The streams at the top of an OLE file, in order of precedence."""

_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
_OPEN_KINDS: Mapping[bytes, FileKind] = {
    b"application/epub+zip": FileKind.EPUB,
    _OPEN_DOCUMENT + b"text": FileKind.ODT,
    _OPEN_DOCUMENT + b"text-template": FileKind.ODT,
    _OPEN_DOCUMENT + b"text-web": FileKind.ODT,
    _OPEN_DOCUMENT + b"spreadsheet": FileKind.ODS,
    _OPEN_DOCUMENT + b"spreadsheet-template": FileKind.ODS,
}
"""By the content of the entry ``mimetype``."""

_MAIN_PART = re.compile(
    rb"(wordprocessingml|ms-word|spreadsheetml|ms-excel|presentationml|ms-powerpoint)\.[\w.]{0,80}main\b"
)
_MAIN_KINDS: Mapping[bytes, FileKind] = {
    b"wordprocessingml": FileKind.DOCX,
    b"ms-word": FileKind.DOCX,
    b"spreadsheetml": FileKind.XLSX,
    b"ms-excel": FileKind.XLSX,
    b"presentationml": FileKind.PPTX,
    b"ms-powerpoint": FileKind.PPTX,
}
_FOLDERS: Mapping[str, FileKind | str] = {
    "word/": FileKind.DOCX,
    "xl/": FileKind.XLSX,
    "ppt/": FileKind.PPTX,
    "META-INF/container.xml": FileKind.EPUB,
    "Index/": _APPLE,
    "Index.zip": _APPLE,
    "index.apxl": _APPLE,
    "visio/": "is a Visio drawing: export it as PDF",
    "FixedDocSeq.fdseq": "is an XPS file: print it to a PDF",
}
"""By the names of the entries, where no main part is declared."""

_ZIP_ENTRY = re.compile(
    rb"PK\x03\x04.{4}(?P<method>..).{16}(?P<name_bytes>..)(?P<more_bytes>..)", re.DOTALL
)
_DEFLATED = b"\x08\x00"
_MEDIA_TYPE_BYTES = 100
_OFFICE_ENTRIES = ("[Content_Types].xml", "_rels/", "docProps/", "customXml/")
"""First entries of Office files, whose other entries tell the kind."""

_OLE_SECTOR_BITS = (9, 12)
_MAX_OLE_SECTORS = 128
_OLE_ENTRY_BYTES = 128
_OLE_HEADER_SECTORS = 109

_DECLARED_BYTES = 1024 * 1024
"""Limit for ``[Content_Types].xml``, which has a line per part."""

_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_HTML_PIECE = re.compile(rb"\s*<(?:table|div|meta|style|font|p|b|h[1-6])\b", re.IGNORECASE)
_OFFICE_XML = re.compile(rb"<\?mso-application\b|<pkg:package\b|<office:document\b")
_HEADER = re.compile(rb"([A-Za-z][A-Za-z0-9-]*):[ \t]?[^\r\n]*\r?\n(?:[ \t]+[^\r\n]*\r?\n)*")
_MAIL_HEADERS = {b"from", b"to", b"subject", b"date"}
_TRACE_HEADERS = {b"received", b"message-id", b"mime-version", b"return-path", b"delivered-to"}
"""Headers of programs: a person who starts a memo with From and To does not write them."""

_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROLS = 0.01
_BLANK = b"\xef\xbb\xbf\xff\xfe\x00\t\n\f\r "
"""White space and byte order marks before the text."""


def may_need_ocr(head: bytes) -> bool:
    """Return whether OCR may have to read the file, by its first HEAD_BYTES."""
    return is_pdf(head) or _is_picture(head)


def is_pdf(head: bytes) -> bool:
    """Return whether the file is a PDF, by its first HEAD_BYTES."""
    return head.lstrip(_BLANK).startswith(b"%PDF-")


def _is_picture(head: bytes) -> bool:
    return (
        head.startswith(_PICTURES)
        or (head[:4], head[8:12]) == (b"RIFF", b"WEBP")
        or (head[:2] == b"BM" and head[6:10] == b"\0\0\0\0" and head[15:18] == b"\0\0\0")
    )


def kind_of_start(file: BinaryIO) -> FileKind | None:
    """Return the kind of an open file without a known suffix, by few of its bytes.

    None is an Office file of any kind. The file is not parsed, as this process has secrets.

    Raises ImportFailed if it is not a document, and OSError.
    """
    head = file.read(HEAD_BYTES)
    if head.startswith(_ZIP):
        return _kind_of_zip_start(head)
    if head.startswith(_OLE):
        return _kind_among(set(_ole_streams(file, head)))
    kind = kind_of(head, "")
    start = head.lstrip(_BLANK).lower()
    if start.startswith(b"#!"):
        raise ImportFailed(_PROGRAM)
    if kind in (FileKind.TEXT, FileKind.MARKDOWN) and start.startswith((b"<?xml", b"<svg")):
        raise ImportFailed("is XML: to import it as text, import it as a single file")
    return kind


def kind_of(data: bytes, suffix: str) -> FileKind:
    """Return the kind of a file. Raises ImportFailed with advice for files that cannot be read."""
    head = data[:HEAD_BYTES]
    named = KINDS.get(suffix.lower())
    if is_pdf(head) or (named is FileKind.PDF and b"%PDF-" in head[:1024]):
        return FileKind.PDF
    if _is_picture(head):
        return FileKind.PICTURE
    if data.startswith(_ZIP):
        return _kind_of_zip(data)
    if data.startswith(_OLE):
        return _kind_of_ole(data)
    if head.lstrip(_BLANK).startswith(b"{\\rtf"):
        return FileKind.RTF
    _check_marks(head)
    return _kind_of_text(data, named, suffix.lower())


def _check_marks(head: bytes) -> None:
    for offset, mark, reason in _REFUSED:
        if head.startswith(mark, offset):
            raise ImportFailed(reason)
    if head[:2] == b"MZ" and b"\0" in head:
        raise ImportFailed(_PROGRAM)


def _kind_of_zip(data: bytes) -> FileKind:
    try:
        with ZipFile(BytesIO(data)) as archive:
            found = _kind_in(archive)
    except (BadZipFile, ValueError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ImportFailed(_DAMAGED_ZIP) from error
    if isinstance(found, FileKind):
        return found
    raise ImportFailed(found)


def _kind_in(archive: ZipFile) -> FileKind | str:
    """Return the kind of a ZIP archive, or the reason to refuse it."""
    names = archive.namelist()
    if "mimetype" in names and (found := _declared(_start_of(archive, "mimetype"))):
        manifest = "META-INF/manifest.xml"
        is_encrypted = manifest in names and b":encryption-data" in _start_of(archive, manifest)
        return _PROTECTED if is_encrypted and found is not FileKind.EPUB else found
    if "[Content_Types].xml" in names and (
        main := _MAIN_PART.search(_start_of(archive, "[Content_Types].xml"))
    ):
        return _MAIN_KINDS[main[1]]
    return _kind_by_names(names) or _ARCHIVE


def _declared(media_type: bytes) -> FileKind | str | None:
    media_type = media_type.strip()
    if media_type in _OPEN_KINDS or not media_type.startswith(_OPEN_DOCUMENT):
        return _OPEN_KINDS.get(media_type)
    return "is an OpenDocument slide show or drawing: export it as PPTX or PDF"


def _kind_by_names(names: Sequence[str]) -> FileKind | str | None:
    for start, found in _FOLDERS.items():
        if any(name.startswith(start) for name in names):
            return found
    return None


def _kind_of_zip_start(head: bytes) -> FileKind | None:
    """Return the kind of a ZIP archive by its first entries; None for an Office file of any."""
    names: list[str] = []
    found: FileKind | str | None = None
    for entry in _ZIP_ENTRY.finditer(head):
        end = entry.end() + int.from_bytes(entry["name_bytes"], "little")
        names.append(head[entry.end() : end].decode("latin-1"))
        if names == ["mimetype"]:
            content = head[end + int.from_bytes(entry["more_bytes"], "little") :]
            if entry["method"] == _DEFLATED:
                content = _inflated(content)
            found = _declared(content.partition(b"PK")[0])
    found = found or _kind_by_names(names)
    if isinstance(found, FileKind):
        return found
    if found is None and any(name.startswith(_OFFICE_ENTRIES) for name in names):
        return None
    raise ImportFailed(found or _ARCHIVE)


def _start_of(archive: ZipFile, name: str) -> bytes:
    with archive.open(name) as entry:
        return entry.read(_DECLARED_BYTES)


def _inflated(content: bytes) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, _MEDIA_TYPE_BYTES)
    except zlib.error:
        return b""


def _kind_of_ole(data: bytes) -> FileKind:
    try:
        from olefile import OleFileIO  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportFailed(NO_FORMATS) from error
    try:
        with OleFileIO(BytesIO(data)) as file:  # bytes of a short file would be a path
            streams = {entry[0] for entry in file.listdir(streams=True, storages=False)}
    except (OSError, ValueError, IndexError, RecursionError) as error:
        raise ImportFailed("is a damaged Office file: open it, and save it again") from error
    return _kind_among(streams)


def _ole_streams(file: BinaryIO, head: bytes) -> Iterator[str]:
    """Yield the names of the streams at the top of an OLE file."""
    directory = _ole_directory(file, head)
    waiting, seen = [_number(directory, 76)], set[int]()
    while waiting:
        place = waiting.pop() * _OLE_ENTRY_BYTES
        entry = directory[place : place + _OLE_ENTRY_BYTES]
        if len(entry) < _OLE_ENTRY_BYTES or place in seen:
            continue
        seen.add(place)
        waiting += (_number(entry, 68), _number(entry, 72))
        yield entry[: max(0, min(64, entry[64]) - 2)].decode("utf-16-le", "replace")


def _ole_directory(file: BinaryIO, head: bytes) -> bytes:
    bits = head[30] if len(head) > _OLE_ENTRY_BYTES else 0
    if bits not in _OLE_SECTOR_BITS:
        return b""
    parts: list[bytes] = []
    sector = _number(head, 48)
    for _ in range(_MAX_OLE_SECTORS):
        file.seek((sector + 1) << bits)
        parts.append(file.read(1 << bits))
        table, place = divmod(sector, (1 << bits) // 4)
        if not parts[-1] or table >= _OLE_HEADER_SECTORS:
            break
        file.seek(((_number(head, 76 + 4 * table) + 1) << bits) + 4 * place)
        sector = _number(file.read(4), 0)
    return b"".join(parts)


def _number(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 4], "little")


def _kind_among(streams: Collection[str]) -> FileKind:
    """Return the kind of an OLE file by the names of its streams. Raises ImportFailed."""
    for stream, found in _OLE_STREAMS:
        if stream in streams:
            if isinstance(found, FileKind):
                return found
            raise ImportFailed(found)
    raise ImportFailed("is an old Office file that cannot be read: export it as PDF")


def _kind_of_text(data: bytes, named: FileKind | None, suffix: str) -> FileKind:
    if not data.strip(_BLANK):
        raise ImportFailed(EMPTY)
    if _is_binary(data[:HEAD_BYTES]):
        raise ImportFailed("is neither text nor a file of a known kind: export it as PDF or text")
    head = data[:HEAD_BYTES].lstrip(_BLANK).replace(b"\0", b"")  # UTF-16 as ASCII
    if found := _marked_text(head, named):
        return found
    if named in _TEXTS:
        return named
    if named is FileKind.XLS:  # how many programs name their exports
        return FileKind.HTML if _HTML_PIECE.match(head) else FileKind.CSV
    if named is not None:
        raise ImportFailed(f"is text, not a {suffix} file: rename it, or save it again")
    return _kind_of_unnamed(data)


def _marked_text(head: bytes, named: FileKind | None) -> FileKind | None:
    """Return the kind of a text that starts with the marks of one."""
    if _OFFICE_XML.search(head):
        raise ImportFailed("is an Office file in one XML part: save it as DOCX, XLSX or ODT")
    if _HTML.match(head):
        return FileKind.HTML
    return FileKind.EML if _is_mail(head, is_named=named in _TEXTS) else None


def _is_mail(head: bytes, *, is_named: bool) -> bool:
    """Return whether a text starts with headers; a text with a suffix needs those of programs."""
    names: set[bytes] = set()
    end = 0
    while header := _HEADER.match(head, end):
        names.add(header[1].lower())
        end = header.end()
    known = names & _MAIL_HEADERS
    return bool(names & _TRACE_HEADERS if is_named else len(known) > 1) and bool(known)


def _is_binary(head: bytes) -> bool:
    """Return whether bytes are no text; in UTF-16 and UTF-32, zeros have regular places."""
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return False
    zeros = [index for index, byte in enumerate(head) if not byte]
    if zeros:
        is_utf_16 = len(zeros) > len(head) // 64 and len({index % 2 for index in zeros}) == 1
        is_utf_32 = len(zeros) > len(head) // 2 and len({index % 4 for index in zeros}) <= 3
        return not (is_utf_16 or is_utf_32 or decode_wide(head))  # Chinese has few zeros
    return len(_CONTROLS.findall(head)) > max(2.0, _MOST_CONTROLS * len(head))


def _kind_of_unnamed(data: bytes) -> FileKind:
    """Return the kind of a text by its form; in doubt it is plain text."""
    if not data.lstrip(_BLANK).startswith((b"{", b"[")):
        text = start_of(data)
        if is_table(text):
            return FileKind.CSV
        return FileKind.MARKDOWN if is_markdown(text) else FileKind.TEXT
    if _is_json(data):
        return FileKind.JSON
    lines = data.strip().splitlines()
    return FileKind.JSON_LINES if _is_json(lines[0]) and _is_json(lines[-1]) else FileKind.TEXT


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True
