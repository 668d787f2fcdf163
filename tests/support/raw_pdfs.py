"""Builds PDFs from their objects, for what no library writes."""

from collections.abc import Mapping, Sequence

_CATALOG, _PAGES, _PAGE, _CONTENT, _FONT = 1, 2, 3, 4, 5

FIRST_OBJECT = 6
"""Number of the first of ``objects``."""


def raw_pdf(
    content: str,
    *objects: str,
    annotations: Sequence[int] = (),
    catalog: str = "",
    page: str = "/MediaBox [0 0 600 800]",
    resources: str = "",
    info: str = "",
) -> bytes:
    """Return a PDF with a page of 600 by 800 points; ``/F1`` is Helvetica.

    ``objects`` have numbers from FIRST_OBJECT; ``annotations`` are some of them. Other arguments
    are entries of the dictionaries with their names; ``resources`` replaces the font.
    """
    listed = " ".join(f"{number} 0 R" for number in annotations)
    numbered = [
        f"<< /Type /Catalog /Pages {_PAGES} 0 R {catalog} >>",
        f"<< /Type /Pages /Kids [{_PAGE} 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent {_PAGES} 0 R {page} /Contents {_CONTENT} 0 R /Annots [{listed}] "
        f"/Resources << {resources or f'/Font << /F1 {_FONT} 0 R >>'} >> >>",
        stream(content),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        *objects,
    ]
    if info:
        numbered.append(f"<< {info} >>")
    out = b"%PDF-1.7\n"
    places: list[int] = []
    for number, text in enumerate(numbered, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(numbered) + 1
    trailer = f"/Size {size} /Root {_CATALOG} 0 R" + (f" /Info {size - 1} 0 R" if info else "")
    return out + (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << {trailer} >>\n"
        f"startxref\n{len(out)}\n%%EOF\n"
    ).encode("latin-1")


def stream(content: str, entries: str = "") -> str:
    """Return a stream object."""
    return f"<< {entries} /Length {len(content)} >>\nstream\n{content}\nendstream"


def text_at(lines: Mapping[tuple[float, float], str], *, size: float = 12) -> str:
    """Return content that shows each text at its place."""
    shown = (f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET" for (x, y), text in lines.items())
    return "\n".join(shown)
