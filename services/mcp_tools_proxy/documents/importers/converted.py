"""Imports DOCX by conversion to Markdown with markitdown (extra formats).

The unpacked content of a .docx file is checked before parsing, and pictures are dropped.
"""

import re
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING
from xml.sax import ContentHandler, SAXException
from xml.sax.xmlreader import AttributesImpl
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from mcp_tools_proxy.documents.importers.base import (
    NO_FORMATS,
    FileFacts,
    ImportFailed,
    ImportOptions,
    clean,
    one_line,
)
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.domain.document import Document

if TYPE_CHECKING:
    from markitdown import DocumentConverter, DocumentConverterResult


_EMBEDDED = re.compile(r"!\[([^\]]*)\]\(data:[^)]*\)")
"""An embedded picture; only its description is text."""

MAX_PARTS = 5_000

MAX_XML_BYTES = 64 * 1024 * 1024

MAX_BYTES = 256 * 1024 * 1024
"""Limit for all unpacked parts: a novel's text has 10 MB, and pictures are already compressed."""

MAX_TOKENS = 500_000
"""Elements and attributes of all parts: 100,000 paragraphs or cells take most of an import's CPU. A
file of 41 kB unpacked to a million."""

MAX_DEPTH = 200
"""Nesting limit: 10,000 nested tables took 8 s before they were refused."""

MAX_OPEN_FIELDS = 50
"""Limit for unclosed fields: each is examined again for every following run."""

_OLE = b"\xd0\xcf\x11\xe0"

_XML = (".xml", ".rels")

_TEXT_FOLDER = "word/"

_BROKEN = "is not a readable .docx file: it is damaged, or was cut short"


def import_docx(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a Word file; headings become sections. Raises ImportFailed."""
    converters = _converters()
    return _document(converters.docx, text_archive(data), options, kind=".docx")


class _Converters:
    """The markitdown converter of each file type."""

    def __init__(self) -> None:
        # only the converters: MarkItDown itself starts threads and guesses file types
        from markitdown.converters import (  # noqa: PLC0415 - an extra
            DocxConverter,
        )

        self.docx = DocxConverter()  # type: ignore[no-untyped-call] # the library's


def _converters() -> _Converters:
    """Return the converters. Raises ImportFailed if they are not installed."""
    try:
        return _Converters()
    except ImportError as error:
        raise ImportFailed(NO_FORMATS) from error


def _document(
    converter: "DocumentConverter", data: bytes, options: ImportOptions, *, kind: str
) -> Document:
    result = _convert(converter, data, kind=kind)
    text = _EMBEDDED.sub(r"\1", clean(result.markdown))
    facts = FileFacts(title=one_line(result.title or ""))
    return build_from_markdown(text, options, facts=facts)


def _convert(
    converter: "DocumentConverter", data: bytes, *, kind: str
) -> "DocumentConverterResult":
    """Convert a file. Raises ImportFailed, MemoryError."""
    from markitdown import StreamInfo  # noqa: PLC0415 - an extra

    info = StreamInfo(charset="utf-8", extension=kind)
    try:
        return converter.convert(BytesIO(data), info)
    except MemoryError:
        raise
    except RecursionError as error:
        raise ImportFailed("is nested too deeply to be read") from error
    except Exception as error:
        raise ImportFailed(f"is not a readable {kind} file ({type(error).__name__})") from error


def text_archive(data: bytes) -> bytes:
    """Return a .docx file in which all parts except XML are empty.

    Pictures are not text and took four times their size of memory. Sizes and XML are checked.
    Document types, and with them entities, are refused in every part; Word never writes them.
    Raises ImportFailed.
    """
    if data.startswith(_OLE):
        raise ImportFailed("has a password, or is an old .doc file: save it as .docx without one")
    try:
        with ZipFile(BytesIO(data)) as archive:
            parts = archive.infolist()
            _check_sizes(parts)
            if not any(part.filename.startswith(_TEXT_FOLDER) for part in parts):
                raise ImportFailed("is not a .docx file: it does not contain a Word text")
            return _packed(_texts(archive, parts))
    except (BadZipFile, LargeZipFile, zlib.error, EOFError, ValueError, OSError) as error:
        raise ImportFailed(_BROKEN) from error
    except (NotImplementedError, RuntimeError) as error:  # unsupported compression, or a password
        raise ImportFailed("is packed in a way that Word does not use: save it again") from error


def _check_sizes(parts: list[ZipInfo]) -> None:
    """Check the declared sizes of the parts; ``ZipFile`` unpacks no more than those."""
    xml = sum(part.file_size for part in parts if part.filename.lower().endswith(_XML))
    size = sum(part.file_size for part in parts)
    if len(parts) > MAX_PARTS or xml > MAX_XML_BYTES or size > MAX_BYTES:
        raise ImportFailed(
            f"unpacks to {len(parts)} parts of {size} bytes, {xml} of them XML; the limits are "
            f"{MAX_PARTS}, {MAX_BYTES} and {MAX_XML_BYTES}"
        )


def _texts(archive: ZipFile, parts: list[ZipInfo]) -> Mapping[str, bytes]:
    """Return the parts by name, with content only for XML."""
    texts: dict[str, bytes] = {}
    reader = _PartReader()
    for part in parts:
        content = b""
        if part.filename.lower().endswith(_XML):
            content = archive.read(part)
            _read_part(content, reader)
        texts[part.filename] = content
    # Word writes "NULL" for a removed picture, and opens the file
    return {**dict.fromkeys(map(_part_name, reader.pictures), b""), **texts}


def _part_name(target: str) -> str:
    return target[1:] if target.startswith("/") else f"{_TEXT_FOLDER}{target}"


def _packed(parts: Mapping[str, bytes]) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


class _PartReader(ContentHandler):
    """Counts the elements of parts and collects the pictures. Raises ImportFailed."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self._tokens = 0
        self._depth = 0
        self._open_fields = 0

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - its base's
        self._tokens += 1 + len(attrs)
        self._depth += 1
        if self._tokens > MAX_TOKENS:
            raise ImportFailed(
                f"has more than {MAX_TOKENS} elements and attributes: cut it into parts"
            )
        if self._depth > MAX_DEPTH:
            raise ImportFailed("is nested too deeply to be read")
        if name == "Relationship" and attrs.get("Type", "").endswith("/image"):
            self.pictures.append(attrs.get("Target", ""))
        elif _local(name) == "fldChar":
            self._count_field(attrs)

    def endElement(self, name: str) -> None:  # noqa: N802 - its base's
        self._depth -= 1

    def startDocument(self) -> None:  # noqa: N802 - its base's
        self._depth = self._open_fields = 0

    def _count_field(self, attrs: AttributesImpl) -> None:
        kinds = [value for name, value in attrs.items() if _local(name) == "fldCharType"]
        self._open_fields += kinds.count("begin") - kinds.count("end")
        if self._open_fields > MAX_OPEN_FIELDS:
            raise ImportFailed(f"has more than {MAX_OPEN_FIELDS} fields within each other")


def _local(name: str) -> str:
    """Return a name without its prefix, which a file can choose."""
    return name.rpartition(":")[2]


def _read_part(content: bytes, reader: _PartReader) -> None:
    """Check an XML part and collect its pictures. Raises ImportFailed."""
    from defusedxml import DefusedXmlException  # noqa: PLC0415 - an extra
    from defusedxml.sax import parseString  # noqa: PLC0415 - an extra

    try:
        parseString(content, reader, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ImportFailed(
            "has an XML part with a document type or entities, which Word never writes"
        ) from error
    except SAXException as error:
        raise ImportFailed(_BROKEN) from error
