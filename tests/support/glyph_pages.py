"""PDF pages whose glyphs stand for any characters, without fonts for them."""

from collections.abc import Sequence


def glyph_page(glyphs: Sequence[tuple[float, float, str]], *, size: float = 20) -> bytes:
    """Build a PDF with one page: each glyph at its place, for one or more characters.

    All glyphs look like letters of Courier (0.6 wide), mapped to Unicode by the font.
    """
    codes = {
        text: 0x41 + number for number, text in enumerate(dict.fromkeys(it[2] for it in glyphs))
    }
    mapping = "\n".join(
        f"<{code:02X}> <{text.encode('utf-16-be').hex()}>" for text, code in codes.items()
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /M def /CMapType 2 "
        "def 1 begincodespacerange <00> <FF> endcodespacerange "
        f"{len(codes)} beginbfchar\n{mapping}\nendbfchar endcmap end end"
    )
    content = "\n".join(
        f"BT /F {size} Tf {x} {y} Td <{codes[text]:02X}> Tj ET" for x, y, text in glyphs
    )
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
        "/Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 6 0 R >>",
        f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream",
    ]
    body = "%PDF-1.4\n" + "".join(
        f"{number} 0 obj\n{text}\nendobj\n" for number, text in enumerate(objects, start=1)
    )
    return f"{body}trailer\n<< /Root 1 0 R /Size 7 >>\n%%EOF\n".encode()
