"""Checks what a .docx file unpacks to, before anything of it is parsed, and leaves out pictures."""

import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from xml.sax import ContentHandler, SAXException
from xml.sax.xmlreader import AttributesImpl
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from mcp_tools_proxy.documents.importers.base import ImportFailed

MAX_PARTS = 5_000
MAX_XML_BYTES = 64 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""Of all that a file unpacks to: a novel's text has 10 MB, and pictures are packed already."""

_OLE = b"\xd0\xcf\x11\xe0"
_XML = (".xml", ".rels")
_TEXT_FOLDER = "word/"

_BROKEN = "is no readable .docx file: it is damaged, or was cut short"


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
                raise ImportFailed("is no .docx file: it has no text of Word")
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
    pictures: list[str] = []
    for part in parts:
        content = b""
        if part.filename.lower().endswith(_XML):
            content = archive.read(part)
            pictures += _pictures_in(content)
        texts[part.filename] = content
    # Word writes "NULL" for one that was removed, and opens the file
    return {**dict.fromkeys(map(_part_name, pictures), b""), **texts}


def _part_name(target: str) -> str:
    """Return the part that a relation of the document names."""
    return target[1:] if target.startswith("/") else f"{_TEXT_FOLDER}{target}"


def _packed(parts: Mapping[str, bytes]) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


class _Pictures(ContentHandler):
    """Collects what the relations of a part name as pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - its base's
        if name == "Relationship" and attrs.get("Type", "").endswith("/image"):
            self.targets.append(attrs.get("Target", ""))


def _pictures_in(content: bytes) -> Sequence[str]:
    """Check a part that is XML; return the pictures that it relates to. Raises ImportFailed."""
    from defusedxml import DefusedXmlException  # noqa: PLC0415 - an extra
    from defusedxml.sax import parseString  # noqa: PLC0415 - an extra

    found = _Pictures()
    try:
        parseString(content, found, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ImportFailed(
            "has an XML part with a document type or entities, which Word never writes"
        ) from error
    except SAXException as error:
        raise ImportFailed(_BROKEN) from error
    return found.targets
