"""Reads form fields, text boxes and notes of PDF pages."""

import re
import textwrap
from codecs import BOM_UTF16_BE
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from ctypes import POINTER, c_int, c_uint, c_ushort, cast, create_string_buffer
from enum import Enum, auto
from functools import partial
from html import unescape
from typing import Any

from pypdfium2 import PdfDocument, PdfPage, raw
from pypdfium2.version import PDFIUM_INFO

from mcp_tools_proxy.documents.importers.base import clean, one_line
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MOST_ANNOTATIONS = 5_000
"""Limit per page; more are left out."""

_MOST_OPTIONS = 1_000
_EMPTY = 2
"""Bytes of an empty string of PDFium: its end."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


class AnnotationKind(Enum):
    """How the text of an annotation belongs to its page."""

    TEXT = auto()
    """Text at its place: the value of a field, a text box, the name of a signer."""

    MARK = auto()
    """A check box or radio button, which can have its label on either side."""

    NOTE = auto()
    """A reviewer's note, which a reader opens."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Text of a page that is not in its content; ``label`` is used if the page shows none.

    ``is_drawn``: PDFium draws the text, so it can be compared with its background. ``colour`` is
    that of a field's text: programs that fill a form often leave its old, empty appearance.
    ``is_list``: options that are not chosen are drawn, too.
    """

    kind: AnnotationKind
    text: str
    box: Box
    label: str = ""
    is_drawn: bool = False
    colour: tuple[int, int, int] | None = None
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class PageAnnotations:
    """The visible annotations of a page, and the number of letters in its hidden ones."""

    visible: Sequence[Annotation]
    hidden_chars: int


@contextmanager
def open_pdf(data: bytes) -> Iterator[PdfDocument]:
    """Open a PDF with its form, without running its scripts. Raises PdfiumError."""
    with closing(PdfDocument(data)) as pdf:
        # a build with V8 would run scripts of the file; the wheels are without
        if not {"V8", "XFA"} & set(PDFIUM_INFO.flags):
            pdf.init_forms()
        yield pdf


def is_xfa_placeholder(pdf: PdfDocument) -> bool:
    """Return whether the pages only ask for a program that can show an XFA form."""
    if pdf.get_formtype() not in {raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND}:
        return False
    if len(pdf) != 1:
        return False
    with closing(pdf[0]) as page:
        return not any(
            raw.FPDFAnnot_GetSubtype(it) == raw.FPDF_ANNOT_WIDGET for it in _annotations(page)
        )


def read_annotations(page: PdfPage, signers: Iterator[str]) -> PageAnnotations:
    """Read a page's annotations; each signature field takes the next name of ``signers``."""
    visible: list[Annotation] = []
    hidden_chars = 0
    for handle in _annotations(page):
        found = _read(page, handle, signers)
        if found is None:
            continue
        if _is_hidden(page, handle, found):
            hidden_chars += 0 if found.kind is AnnotationKind.MARK else count_letters(found.text)
        elif found.text:
            visible.append(found)
    return PageAnnotations(visible, hidden_chars)


def count_letters(text: str) -> int:
    """Return the number of letters and digits."""
    return sum(map(str.isalnum, text))


def _annotations(page: PdfPage) -> Iterator[Any]:
    for number in range(min(raw.FPDFPage_GetAnnotCount(page), MOST_ANNOTATIONS)):
        handle = raw.FPDFPage_GetAnnot(page, number)
        if handle:
            try:
                yield handle
            finally:
                raw.FPDFPage_CloseAnnot(handle)


_HIDDEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_NOTES = {
    raw.FPDF_ANNOT_HIGHLIGHT,
    raw.FPDF_ANNOT_UNDERLINE,
    raw.FPDF_ANNOT_SQUIGGLY,
    raw.FPDF_ANNOT_STRIKEOUT,
    raw.FPDF_ANNOT_TEXT,
    raw.FPDF_ANNOT_LINE,
    raw.FPDF_ANNOT_SQUARE,
    raw.FPDF_ANNOT_CIRCLE,
    raw.FPDF_ANNOT_POLYGON,
    raw.FPDF_ANNOT_POLYLINE,
    raw.FPDF_ANNOT_STAMP,
    raw.FPDF_ANNOT_CARET,
    raw.FPDF_ANNOT_INK,
    raw.FPDF_ANNOT_FILEATTACHMENT,
}


def _read(page: PdfPage, handle: Any, signers: Iterator[str]) -> Annotation | None:
    subtype = raw.FPDFAnnot_GetSubtype(handle)
    if subtype == raw.FPDF_ANNOT_WIDGET:
        return None if page.formenv is None else _read_field(page.formenv, handle, signers)
    if subtype == raw.FPDF_ANNOT_FREETEXT:
        text, is_drawn = _text_of_box(handle), _has_appearance(handle)
        return Annotation(AnnotationKind.TEXT, text, box_of(handle), is_drawn=is_drawn)
    if subtype in _NOTES and not string_of(handle, b"StateModel"):
        return Annotation(AnnotationKind.NOTE, _note(handle), box_of(handle))
    return None


def _text_of_box(handle: Any) -> str:
    """Return the text of a text box, which some programs write only as XHTML."""
    contents = string_of(handle, b"Contents")
    if contents:
        return contents
    lines = _END_OF_LINE.split(string_of(handle, b"RC"))
    return "\n".join(filter(None, (one_line(unescape(_TAG.sub("", it))) for it in lines)))


_TAG = re.compile(r"<[^<>]*>")
_END_OF_LINE = re.compile(r"</p>|<br ?/?>")


def _note(handle: Any) -> str:
    text = one_line(string_of(handle, b"Contents"))
    author = one_line(string_of(handle, b"T"))
    if not text:
        return ""
    return f"[Note by {author}: {text}]" if author else f"[Note: {text}]"


def _read_field(form: Any, handle: Any, signers: Iterator[str]) -> Annotation | None:
    kind = raw.FPDFAnnot_GetFormFieldType(form, handle)
    box = box_of(handle)
    label = one_line(_string(partial(raw.FPDFAnnot_GetFormFieldAlternateName, form, handle)))
    if kind in {raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON}:
        # PDFium compares the shown state with the button's number, which some forms count from 1
        is_shown = string_of(handle, b"AS") not in {"", "Off"}
        mark = "[x]" if is_shown or raw.FPDFAnnot_IsChecked(form, handle) else "[ ]"
        return Annotation(AnnotationKind.MARK, mark, box, label)
    if kind in {raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX}:
        text = _chosen(form, handle) or _value(form, handle)
    elif kind == raw.FPDF_FORMFIELD_TEXTFIELD:
        text = _value(form, handle)
    elif kind == raw.FPDF_FORMFIELD_SIGNATURE:
        signer = next(signers, "")
        text = f"[Signed by {signer}]" if signer else ""
    else:
        return None
    is_drawn = kind != raw.FPDF_FORMFIELD_SIGNATURE
    colour, is_list = _font_colour(form, handle), kind == raw.FPDF_FORMFIELD_LISTBOX
    return Annotation(AnnotationKind.TEXT, text, box, label, is_drawn, colour, is_list)


def _font_colour(form: Any, handle: Any) -> tuple[int, int, int]:
    red, green, blue = c_uint(), c_uint(), c_uint()
    raw.FPDFAnnot_GetFontColor(form, handle, red, green, blue)
    return red.value, green.value, blue.value


def _value(form: Any, handle: Any) -> str:
    return _string(partial(raw.FPDFAnnot_GetFormFieldValue, form, handle))


def _chosen(form: Any, handle: Any) -> str:
    """Return the labels of the chosen options; the value can be a code that nobody sees."""
    count = min(raw.FPDFAnnot_GetOptionCount(form, handle), _MOST_OPTIONS)
    chosen = [it for it in range(count) if raw.FPDFAnnot_IsOptionSelected(form, handle, it)]
    labels = (_string(partial(raw.FPDFAnnot_GetOptionLabel, form, handle, it)) for it in chosen)
    return ", ".join(filter(None, map(one_line, labels)))


def _is_hidden(page: PdfPage, handle: Any, found: Annotation) -> bool:
    if raw.FPDFAnnot_GetFlags(handle) & _HIDDEN:
        return True
    if page.formenv is not None and (
        raw.FPDFAnnot_GetFormFieldFlags(page.formenv, handle) & raw.FPDF_FORMFLAG_TEXT_PASSWORD
        and raw.FPDFAnnot_GetFormFieldType(page.formenv, handle) == raw.FPDF_FORMFIELD_TEXTFIELD
    ):
        return True
    if found.kind is AnnotationKind.NOTE:
        return False  # listed in a panel, wherever they are
    left, bottom, right, top = found.box
    page_left, page_bottom, page_right, page_top = page.get_bbox()
    is_outside = (
        left >= page_right or right <= page_left or bottom >= page_top or top <= page_bottom
    )
    return is_outside or right - left < 1 or top - bottom < 1


def box_of(handle: Any) -> Box:
    """Return the rectangle of an annotation."""
    rect = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(handle, rect)
    return (
        min(rect.left, rect.right),
        min(rect.bottom, rect.top),
        max(rect.left, rect.right),
        max(rect.bottom, rect.top),
    )


def string_of(handle: Any, key: bytes) -> str:
    """Return a string of an annotation's dictionary, or ""."""
    return _string(partial(raw.FPDFAnnot_GetStringValue, handle, key))


def wide_string(text: str) -> Any:
    """Return a string for PDFium."""
    return cast(create_string_buffer(f"{text}\0".encode("utf-16-le")), POINTER(c_ushort))


def _string(read: Callable[[Any, int], int]) -> str:
    """Return a string that PDFium writes into a buffer, with ``\\n`` as line ends."""
    size = read(None, 0)
    if size <= _EMPTY:
        return ""
    buffer = create_string_buffer(size)
    read(cast(buffer, POINTER(c_ushort)), size)
    text = buffer.raw[: size - 2].decode("utf-16-le", errors="replace")
    return clean(text.replace("\r\n", "\n").replace("\r", "\n")).strip()


_MOST_SIGNATURES = 100
_SIGNATURE_BYTES = 4_000
_MOST_CERTIFICATE_BYTES = 1_000_000
_NAME = re.compile(rb"/Name\s*(?:\(((?:\\.|[^\\()])*)\)|<([0-9A-Fa-f\s]*)>)", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)


def signers_of(pdf: PdfDocument, data: bytes) -> Iterator[str]:
    """Yield the name of each signature's signer, in the order of the form; "" if unknown."""
    is_encrypted = raw.FPDF_GetSecurityHandlerRevision(pdf) != -1
    for number in range(min(raw.FPDF_GetSignatureCount(pdf), _MOST_SIGNATURES)):
        signature = raw.FPDF_GetSignatureObject(pdf, number)
        name = "" if is_encrypted else _stated_name(signature, data)
        yield one_line(name or _name_in_certificate(signature))


def _stated_name(signature: Any, data: bytes) -> str:
    """Return the name beside the signed bytes, which are never compressed; PDFium does not."""
    ends = (c_int * 4)()
    if raw.FPDFSignatureObj_GetByteRange(signature, ends, 4) < 4:
        return ""
    start, end = ends[0] + ends[1], ends[2]
    before = data[max(0, start - _SIGNATURE_BYTES) : start].rpartition(b" obj")[2]
    after = data[end : end + _SIGNATURE_BYTES].partition(b"endobj")[0]
    match = _NAME.search(before) or _NAME.search(after)
    return _pdf_text(*match.groups()) if match else ""


def _name_in_certificate(signature: Any) -> str:
    """Return the common name in the signer's certificate, without checking the signature."""
    size = raw.FPDFSignatureObj_GetContents(signature, None, 0)
    if not 0 < size < _MOST_CERTIFICATE_BYTES:
        return ""
    buffer = create_string_buffer(size)
    raw.FPDFSignatureObj_GetContents(signature, buffer, size)
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - rarely needed
    from cryptography.hazmat.primitives.serialization import pkcs7  # noqa: PLC0415 - rarely needed
    from cryptography.x509 import NameOID  # noqa: PLC0415 - rarely needed

    try:
        found = pkcs7.load_der_pkcs7_certificates(_without_padding(buffer.raw))
        issuers = {it.issuer for it in found if it.issuer != it.subject}
        signer = next((it for it in found if it.subject not in issuers), found[0])
        names = signer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (ValueError, IndexError, UnsupportedAlgorithm):
        return ""
    return str(names[0].value) if names else ""


def _without_padding(content: bytes) -> bytes:
    """Return a DER structure without the zeros after it."""
    count = content[1] & 0x7F if content[1] & 0x80 else 0
    size = int.from_bytes(content[2 : 2 + count], "big") if count else content[1]
    return content[: 2 + count + size]


def _pdf_text(literal: bytes | None, digits: bytes | None) -> str:
    """Decode a string of a PDF, given as its literal or its hexadecimal digits."""
    if literal is None:
        digits = b"".join((digits or b"").split())
        content = bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
    else:
        content = _ESCAPE.sub(_unescape, literal)
    if content.startswith(BOM_UTF16_BE):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")  # some producers write UTF-8 without a mark
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    if escaped.isdigit():
        return bytes([int(escaped, 8) & 255])
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"", b"f": b"", b"\n": b""}.get(
        escaped, escaped
    )


_LINE = 1.2
_WIDTH = 0.5
"""Height of a line and mean width of a letter, by the size of the font."""

_LEAST_SIZE = 4.0


def draw_text_boxes(pdf: PdfDocument, page: PdfPage) -> None:
    """Draw text boxes without an appearance: PDFium draws only their frame."""
    for handle in _annotations(page):
        if raw.FPDFAnnot_GetSubtype(handle) != raw.FPDF_ANNOT_FREETEXT:
            continue
        if not _has_appearance(handle) and not raw.FPDFAnnot_GetFlags(handle) & _HIDDEN:
            _draw_text(pdf, page, _text_of_box(handle), box_of(handle), _size(handle))
            raw.FPDFAnnot_SetFlags(handle, raw.FPDF_ANNOT_FLAG_HIDDEN)  # its frame has a filling


def _has_appearance(handle: Any) -> bool:
    return bool(raw.FPDFAnnot_HasKey(handle, b"AP"))


def _size(handle: Any) -> float:
    styles = string_of(handle, b"DS") + " " + string_of(handle, b"DA")
    match = re.search(r"(\d{1,3}(?:\.\d+)?)\s*(?:Tf|pt)\b", styles)
    return float(match[1]) if match and float(match[1]) else 12.0


def _draw_text(pdf: PdfDocument, page: PdfPage, text: str, box: Box, size: float) -> None:
    """Draw text in a box, in a smaller size if it does not fit."""
    left, bottom, right, top = box
    lines: list[str] = []
    while size > _LEAST_SIZE:
        lines = list(_lines(text, most=max(1, int((right - left) / size / _WIDTH))))
        if len(lines) * size * _LINE <= top - bottom:
            break
        size *= 0.9
    for number, line in enumerate(lines, start=1):
        created = raw.FPDFPageObj_NewTextObj(pdf, b"Helvetica", size)
        raw.FPDFText_SetText(created, wide_string(line))
        raw.FPDFPageObj_Transform(created, 1, 0, 0, 1, left + 2, top - number * size * _LINE)
        raw.FPDFPage_InsertObject(page, created)


def _lines(text: str, *, most: int) -> Iterator[str]:
    for line in text.split("\n"):
        yield from textwrap.wrap(line, most) or [""]
