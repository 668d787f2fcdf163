"""Checks what a .docx file unpacks to, before anything of it is parsed, and leaves out pictures."""

import zlib
from collections.abc import Mapping
from io import BytesIO
from xml.sax import ContentHandler, SAXException
from xml.sax.xmlreader import AttributesImpl
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from mcp_tools_proxy.documents.importers.base import ImportFailed

MAX_PARTS = 5_000
MAX_XML_BYTES = 64 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""Of all that a file unpacks to: a novel's text has 10 MB, and pictures are packed already."""

MAX_TOKENS = 500_000
"""Elements and attributes of all parts: 100,000 paragraphs or cells take most of the CPU that an
import has. A file of 41 kB unpacked to a million."""

MAX_DEPTH = 200
"""Elements within elements: 10,000 tables within each other took 8 s before they were refused."""

MAX_OPEN_FIELDS = 50
"""Fields that begin and do not end: each is looked at again for every run behind it."""

_OLE = b"\xd0\xcf\x11\xe0"
_XML = (".xml", ".rels")
_TEXT_FOLDER = "word/"

_BROKEN = "is not a readable .docx file: it is damaged, or was cut short"


def text_archive(data: bytes) -> bytes:
    """Return a .docx file with nothing in it but its XML: all other parts are empty.

    Pictures are no text, and took four times their size of memory. Sizes and XML are checked. A
    document type is refused in every part, and so every entity of its own: Word writes none.
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
    except (NotImplementedError, RuntimeError) as error:  # another compression, or a password
        raise ImportFailed("is packed in a way that Word does not use: save it again") from error


def _check_sizes(parts: list[ZipInfo]) -> None:
    """Check what the parts say of their sizes; ``ZipFile`` unpacks no more than that."""
    xml = sum(part.file_size for part in parts if part.filename.lower().endswith(_XML))
    size = sum(part.file_size for part in parts)
    if len(parts) > MAX_PARTS or xml > MAX_XML_BYTES or size > MAX_BYTES:
        raise ImportFailed(
            f"unpacks to {len(parts)} parts of {size} bytes, {xml} of them XML; the limits are "
            f"{MAX_PARTS}, {MAX_BYTES} and {MAX_XML_BYTES}"
        )


def _texts(archive: ZipFile, parts: list[ZipInfo]) -> Mapping[str, bytes]:
    """Return the parts by their names, with the content of those that are XML."""
    texts: dict[str, bytes] = {}
    reader = _PartReader()
    for part in parts:
        content = b""
        if part.filename.lower().endswith(_XML):
            content = archive.read(part)
            _read_part(content, reader)
        texts[part.filename] = content
    # Word writes "NULL" for one that was removed, and opens the file
    return {**dict.fromkeys(map(_part_name, reader.pictures), b""), **texts}


def _part_name(target: str) -> str:
    """Return the part that a relation of the document names."""
    return target[1:] if target.startswith("/") else f"{_TEXT_FOLDER}{target}"


def _packed(parts: Mapping[str, bytes]) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


class _PartReader(ContentHandler):
    """Counts the elements of parts, and collects what their relations name as pictures.

    Raises ImportFailed.
    """

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
    """Check a part that is XML, and read its pictures. Raises ImportFailed."""
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
