"""Renders one page of a PDF in a process of its own: from stdin to stdout, within limits.

Started by ``page_images``. What a file can do to its parser, it does to this process only.
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
"""Pixels: APIs scale images down that are larger."""

LEAST_SIDE = 100
"""Pixels of the longest side; on a smaller image nothing can be read."""

MAX_SCALE = 3.0
"""Pixels for each point of the page, which is 216 dpi: a small page is not blown up."""

QUALITY = 80
COLOURS = 32
"""Of a PNG: a page of text at 1,600 pixels takes 23 kB then, where a JPEG takes 530 kB."""


class CannotRender(Exception):
    """There is no image of the page; its text is the reason, for a person."""


def main() -> None:
    """Read a request and a PDF, write the image of a page or why there is none."""
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
    """Return a page (1-based) as an image of at most ``max_bytes``: its type, width and height.

    Raises CannotRender.
    """
    # Imported here, within the limits
    from pypdfium2 import PdfDocument, PdfiumError  # noqa: PLC0415

    try:
        with closing(PdfDocument(data)) as pdf, closing(pdf[page - 1]) as opened:
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
    """Return a PNG of few colours, for text and drawings, or a JPEG, for pictures."""
    from PIL.Image import Dither  # noqa: PLC0415 - as above

    png, jpeg = BytesIO(), BytesIO()
    drawn.quantize(COLOURS, dither=Dither.NONE).save(png, "PNG", optimize=True)
    drawn.save(jpeg, "JPEG", quality=QUALITY, optimize=True)
    if png.tell() <= jpeg.tell():
        return "image/png", png.getvalue()
    return "image/jpeg", jpeg.getvalue()


if __name__ == "__main__":
    main()
