"""Checks what a .docx file unpacks to, before anything of it is parsed."""

import zlib
from collections.abc import Iterator
from io import BytesIO
from xml.sax import ContentHandler, SAXException
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from mcp_tools_proxy.documents.importers.base import ImportFailed

MAX_PARTS = 5_000
MAX_XML_BYTES = 64 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""Of all that a file unpacks to: a novel's text has 10 MB, and pictures are packed already."""

_OLE = b"\xd0\xcf\x11\xe0"
_XML = (".xml", ".rels")
_MARKUP = (b"<", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00<")
"""How a part begins that a parser may take for XML whatever its name is."""

_BROKEN = "is no readable .docx file: it is damaged, or was cut short"


def check_archive(data: bytes) -> None:
    """Check sizes and XML of a .docx file. Raises ImportFailed.

    A document type is refused in every part, and so every entity of its own: Word writes none.
    """
    if data.startswith(_OLE):
        raise ImportFailed("has a password, or is an old .doc file: save it as .docx without one")
    try:
        with ZipFile(BytesIO(data)) as archive:
            parts = archive.infolist()
            _check_sizes(parts)
            if not any(part.filename.startswith("word/") for part in parts):
                raise ImportFailed("is no .docx file: it has no text of Word")
            for part in _markup_parts(archive, parts):
                _check_xml(archive.read(part))
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


def _markup_parts(archive: ZipFile, parts: list[ZipInfo]) -> Iterator[ZipInfo]:
    for part in parts:
        if part.filename.lower().endswith(_XML):
            yield part
        else:
            with archive.open(part) as opened:
                if opened.read(64).lstrip().startswith(_MARKUP):
                    yield part


def _check_xml(content: bytes) -> None:
    from defusedxml import DefusedXmlException  # noqa: PLC0415 - an extra
    from defusedxml.sax import parseString  # noqa: PLC0415 - an extra

    try:
        parseString(content, ContentHandler(), forbid_dtd=True)
    except DefusedXmlException as error:
        raise ImportFailed(
            "has an XML part with a document type or entities, which Word never writes"
        ) from error
    except SAXException as error:
        raise ImportFailed(_BROKEN) from error
