"""Worker process that renders one page of a PDF from stdin to stdout, within limits.

Started by ``page_images``; isolates the service from attacks on the PDF parser.
"""

import json
import math
import sys
from contextlib import closing
from io import BytesIO
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.import_worker import limit_process

if TYPE_CHECKING:
    from PIL.Image import Image

CPU_S = 30

LONGEST_SIDE = 1600
"""Pixels; APIs scale larger images down."""

LEAST_SIDE = 100
"""Pixels of the longest side; smaller images are unreadable."""

MAX_SCALE = 3.0
"""Pixels per point of the page (216 dpi), so that small pages are not enlarged."""

QUALITY = 80
COLOURS = 32
"""Colours of a PNG: a page of text at 1,600 pixels takes 23 kB, and 530 kB as a JPEG."""


class CannotRender(Exception):
    """No image can be rendered; the message is a human-readable reason."""


def main() -> None:
    """Read a request and a PDF; write the image of a page, or the failure."""
    limit_process(cpu_s=CPU_S)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    request = json.loads(source.readline())
    try:
        kind, image, width, height = render_page(
            source.read(), int(request["page"]), max_bytes=int(request["max_bytes"])
        )
    except CannotRender as error:
        sink.write(b"failed " + json.dumps(str(error)).encode() + b"\n")
    else:
        sink.write(b"image %b %d %d %d\n" % (kind.encode(), len(image), width, height) + image)
    sink.flush()


def render_page(data: bytes, page: int, *, max_bytes: int) -> tuple[str, bytes, int, int]:
    """Return the media type, image, width and height of a page (1-based).

    The image has at most ``max_bytes``. Raises CannotRender.
    """
    # after the limits are set
    from pypdfium2 import PdfiumError  # noqa: PLC0415

    from mcp_tools_proxy.documents.importers.pdf_annotations import (  # noqa: PLC0415
        draw_text_boxes,
        open_pdf,
    )

    try:
        with open_pdf(data) as pdf, closing(pdf[page - 1]) as opened:
            draw_text_boxes(pdf, opened)
            longest = max(opened.get_size())
            if not math.isfinite(longest) or longest <= 0:
                raise CannotRender("the page has no size")
            scale = min(LONGEST_SIDE / longest, MAX_SCALE)
            while scale * longest >= LEAST_SIDE:
                with closing(opened.render(scale=scale)) as bitmap:
                    drawn = bitmap.to_pil().convert("RGB")
                kind, image = _smaller(drawn)
                if len(image) <= max_bytes:
                    return kind, image, drawn.width, drawn.height
                scale *= min(math.sqrt(max_bytes / len(image)), 0.9)
    except (PdfiumError, IndexError) as error:
        raise CannotRender("the original file cannot be read") from error
    except MemoryError as error:
        raise CannotRender("it needs more memory than allowed") from error
    raise CannotRender(f"an image of at most {max_bytes} bytes is not readable")


def _smaller(drawn: "Image") -> tuple[str, bytes]:
    """Return the smaller of a PNG with few colours (text, drawings) and a JPEG (pictures)."""
    from PIL.Image import Dither  # noqa: PLC0415 - as above

    png, jpeg = BytesIO(), BytesIO()
    drawn.quantize(COLOURS, dither=Dither.NONE).save(png, "PNG", optimize=True)
    drawn.save(jpeg, "JPEG", quality=QUALITY, optimize=True)
    if png.tell() <= jpeg.tell():
        return "image/png", png.getvalue()
    return "image/jpeg", jpeg.getvalue()


if __name__ == "__main__":
    main()
