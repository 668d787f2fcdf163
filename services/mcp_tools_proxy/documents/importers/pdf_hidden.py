"""Leaves out text of PDF pages that readers do not see, a way to plant instructions for models.

Cheap signs select suspicious text objects. A page that has some is drawn with and without them:
text that changes no pixel is hidden. White text on a coloured area, and the text layer of a scan,
are content.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import POINTER, c_float, c_int, c_uint, c_ulong, c_ushort, cast, create_string_buffer
from math import ceil, hypot, sqrt
from time import process_time
from typing import Any

from PIL import Image, ImageChops
from pypdfium2 import PdfMatrix, PdfPage, raw

from mcp_tools_proxy.documents.importers.pdf_annotations import Annotation, Box, count_letters
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MOST_OBJECTS = 50_000
"""Limit per page; text after that is not examined."""

CPU_S = 40.0
"""CPU seconds for all pages of a file, a third of an import's. A page takes 0.02 to 0.3."""

TINY = 1.0
"""Points; text of this size is a line of dots."""

VISIBLE = 8
"""Minimum difference of a pixel, of 255, that is seen: black text of 2 points has 60."""

INK = 40
"""Minimum range of the pixels under invisible text that belongs to a picture of it."""

_MOST_PIXELS = 1_000_000
_MOST_SIDE = 10_000
_MOST_SCALE = 1.5
_LIGHT = 200
_FAINT = 40
_SIMILAR = 40
_MOST_DEPTH = 6
_MOST_AREAS = 200
_LEAST_AREA = 50.0
_SCAN_SHARE = 0.5
_PICTURE_SHARE = 0.25
_FEW_TEXTS = 20
_MOST_CLIPS = 20
_RECTANGLE = 5
"""Points of a rectangle, with its start again."""

_FRAME = 3
"""Pixels of a field's frame."""

_Colour = tuple[int, int, int, int]

_UNSEEN = (raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP)
_STROKED = (raw.FPDF_TEXTRENDERMODE_STROKE, raw.FPDF_TEXTRENDERMODE_STROKE_CLIP)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A text object, filled path or picture; ``order`` is its position among all objects.

    ``colour`` is None for pictures and patterns. ``is_doubtful``: a layer that is off or a clip
    path may hide it.
    """

    handle: Any
    box: Box
    order: int
    colour: _Colour | None
    is_doubtful: bool
    is_text: bool
    is_picture: bool = False
    is_unseen: bool = False
    is_tiny: bool = False


class HiddenText:
    """Finds the hidden text of a file's pages."""

    def __init__(self, data: bytes) -> None:
        # object streams are compressed, and can contain the list of layers
        self._may_have_layers = b"/OCProperties" in data or b"/ObjStm" in data
        self._until = process_time() + CPU_S

    @property
    def has_time(self) -> bool:
        """Whether pages can still be drawn; without, they keep their text."""
        return process_time() < self._until

    def visible(self, page: PdfPage, annotations: Sequence[Annotation]) -> list[Annotation]:
        """Return the annotations except fields and text boxes in the colour of their background."""
        if not self.has_time or not any(it.is_drawn for it in annotations):
            return list(annotations)
        drawn = [it for it in annotations if it.is_drawn]
        frame = _DrawnPart.around(page, [it.box for it in drawn])
        image = frame.draw(page, draw_annots=True, may_draw_forms=True)
        return [it for it in annotations if not it.is_drawn or _is_seen(page, frame, image, it)]

    def remove(self, page: PdfPage) -> int:
        """Deactivate the hidden text objects of a page; return the number of their letters."""
        drawn = list(_objects(page, may_have_layers=self._may_have_layers))
        texts = [it for it in drawn if it.is_text]
        areas = sorted((it for it in drawn if not it.is_text), key=lambda it: -_area(it.box))
        page_box = page.get_bbox()
        has_area = _area(page_box) > 0  # not if the boxes of the page contradict each other
        hidden = [
            it for it in texts if it.is_tiny or (has_area and not _overlaps(it.box, page_box))
        ]
        known = {id(it) for it in hidden}
        suspicious = [
            it for it in texts if id(it) not in known and _is_suspicious(it, areas[:_MOST_AREAS])
        ]
        if suspicious and self.has_time:
            layer = _text_layer(texts, areas, _area(page_box))
            hidden += _unseen(page, suspicious, layer)
        if not hidden:
            return 0
        before = _count_letters(page)
        for it in hidden:
            raw.FPDFPageObj_SetIsActive(it.handle, 0)
        return max(0, before - _count_letters(page))


def _is_suspicious(text: _Drawn, areas: Sequence[_Drawn]) -> bool:
    colour = text.colour
    if text.is_unseen or text.is_doubtful or colour is None:
        return True
    if min(colour[:3]) >= _LIGHT or colour[3] <= _FAINT:
        return True
    x, y = (text.box[0] + text.box[2]) / 2, (text.box[1] + text.box[3]) / 2
    return any(
        area.order > text.order or (area.colour is not None and _is_similar(area.colour, colour))
        for area in areas
        if area.box[0] <= x <= area.box[2] and area.box[1] <= y <= area.box[3]
    )


def _is_similar(one: _Colour, other: _Colour) -> bool:
    return all(abs(a - b) <= _SIMILAR for a, b in zip(one[:3], other[:3], strict=True))


def _text_layer(
    texts: Sequence[_Drawn], areas: Sequence[_Drawn], page_area: float
) -> frozenset[int]:
    """Return the ids of text that belongs to a scan, or to letters that are drawn as paths.

    It is invisible, or under a picture, and there is more of it than of other text.
    """
    pictures = [it for it in areas if it.is_picture]
    large = [it for it in pictures if _area(it.box) >= page_area * _PICTURE_SHARE]
    layer = [
        it
        for it in texts
        if it.is_unseen or any(at.order > it.order and _overlaps(it.box, at.box) for at in large)
    ]
    others = len(texts) - len(layer)
    if not others:
        return frozenset(map(id, layer))
    if others > max(_FEW_TEXTS, len(layer)):
        return frozenset()
    if sum(_area(it.box) for it in pictures) < page_area * _SCAN_SHARE:  # a scan can be in strips
        layer = [it for it in layer if any(_overlaps(it.box, at.box) for at in large)]
    return frozenset(map(id, layer))


def _unseen(page: PdfPage, suspicious: Sequence[_Drawn], layer: frozenset[int]) -> list[_Drawn]:
    """Return the texts that change no pixel; those of a text layer need a picture of letters."""
    frame = _DrawnPart.around(page, [it.box for it in suspicious])
    with_texts = frame.draw(page)
    for it in suspicious:
        raw.FPDFPageObj_SetIsActive(it.handle, 0)
    without = frame.draw(page)
    for it in suspicious:
        raw.FPDFPageObj_SetIsActive(it.handle, 1)
    difference = ImageChops.difference(with_texts, without)
    return [
        it
        for it in suspicious
        if _most(frame.part(page, difference, it.box)) < VISIBLE
        and not (id(it) in layer and _range(frame.part(page, without, it.box, margin=4)) >= INK)
    ]


@dataclass(frozen=True, slots=True)
class _DrawnPart:
    """The part of a page that is drawn, in pixels: left, top, right and bottom."""

    scale: float
    size: tuple[int, int]
    edges: tuple[int, int, int, int]

    @classmethod
    def around(cls, page: PdfPage, boxes: Sequence[Box]) -> "_DrawnPart":
        """Return the part with all boxes: drawing less takes less time."""
        width, height = page.get_size()
        most = sqrt(_MOST_PIXELS / max(1.0, width * height))
        scale = float(min(_MOST_SCALE, most, _MOST_SIDE / max(width, height, 1.0)))
        size = max(1, ceil(width * scale)), max(1, ceil(height * scale))
        lefts, tops, rights, bottoms = zip(
            *(_pixels(page, it, size, _MARGIN) for it in boxes), strict=True
        )
        return cls(scale, size, (min(lefts), min(tops), max(rights), max(bottoms)))

    def draw(self, page: PdfPage, **options: bool) -> Image.Image:
        left, top, right, bottom = self.edges
        cut = (left, self.size[1] - bottom, self.size[0] - right, top)
        crop = [max(0.0, it - 0.5) / self.scale for it in cut]
        options = {"draw_annots": False, "may_draw_forms": False, **options}
        with closing(page.render(scale=self.scale, crop=crop, **options)) as bitmap:
            drawn: Image.Image = bitmap.to_pil()
            return drawn if drawn.mode == "RGB" else drawn.convert("RGB")

    def part(self, page: PdfPage, image: Image.Image, box: Box, *, margin: int = 1) -> Image.Image:
        """Return the part of the drawing inside a box of the page, at least one pixel."""
        left, top, right, bottom = _pixels(page, box, self.size, margin)
        x, y = self.edges[:2]
        return image.crop((left - x, top - y, right - x, bottom - y))


_MARGIN = 4


def _is_seen(page: PdfPage, frame: _DrawnPart, image: Image.Image, annotation: Annotation) -> bool:
    area = frame.part(page, image, annotation.box, margin=-_FRAME)
    if _range(area) >= VISIBLE:
        return True
    background = [low for low, _ in _extrema(area)]
    return annotation.colour is not None and any(
        abs(one - other) >= 2 * VISIBLE
        for one, other in zip(annotation.colour, background, strict=True)
    )


def _most(image: Image.Image) -> int:
    return max(high for _, high in _extrema(image))


def _range(image: Image.Image) -> int:
    return max(high - low for low, high in _extrema(image))


def _extrema(image: Image.Image) -> Sequence[tuple[int, int]]:
    extrema: Any = image.getextrema()
    return [(int(low), int(high)) for low, high in extrema]


def _pixels(
    page: PdfPage, box: Box, size: tuple[int, int], margin: int
) -> tuple[int, int, int, int]:
    """Return the left, top, right and bottom pixels of a box, at least one pixel apart."""
    width, height = size
    x, y = c_int(), c_int()
    xs: list[int] = []
    ys: list[int] = []
    for at_x, at_y in (box[:2], box[2:]):
        raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, at_x, at_y, x, y)
        xs.append(x.value)
        ys.append(y.value)
    left = min(max(min(xs) - margin, 0), width - 1)
    top = min(max(min(ys) - margin, 0), height - 1)
    right = max(min(max(xs) + margin, width), left + 1)
    return left, top, right, max(min(max(ys) + margin, height), top + 1)


def _objects(page: PdfPage, *, may_have_layers: bool) -> Iterator[_Drawn]:
    """Yield the text, filled paths and pictures of a page in the order of drawing."""
    count = min(raw.FPDFPage_CountObjects(page), MOST_OBJECTS)
    start: PdfMatrix | None = None
    pending = [(raw.FPDFPage_GetObject(page, at), start, 0, False) for at in reversed(range(count))]
    for order in range(MOST_OBJECTS):
        if not pending:
            return
        handle, matrix, depth, is_doubtful = pending.pop()
        kind = raw.FPDFPageObj_GetType(handle)
        is_doubtful = is_doubtful or (may_have_layers and _has_layer(handle)) or _is_clipped(handle)
        if kind == raw.FPDF_PAGEOBJ_FORM:
            if depth < _MOST_DEPTH and len(pending) < 2 * MOST_OBJECTS:
                inner = _matrix(handle, matrix)
                pending += [
                    # a form can itself have a layer, which PDFium does not return
                    (
                        raw.FPDFFormObj_GetObject(handle, at),
                        inner,
                        depth + 1,
                        is_doubtful or may_have_layers,
                    )
                    for at in reversed(
                        range(min(raw.FPDFFormObj_CountObjects(handle), MOST_OBJECTS))
                    )
                ]
        elif kind == raw.FPDF_PAGEOBJ_TEXT:
            yield _text(handle, matrix, order, is_doubtful=is_doubtful)
        elif kind == raw.FPDF_PAGEOBJ_IMAGE or (
            kind == raw.FPDF_PAGEOBJ_PATH and _is_filled(handle)
        ):
            is_picture = kind == raw.FPDF_PAGEOBJ_IMAGE
            box = _box(handle, matrix)
            if _area(box) >= _LEAST_AREA:
                yield _Drawn(
                    handle=handle,
                    box=box,
                    order=order,
                    colour=None if is_picture else _colour(handle, raw.FPDFPageObj_GetFillColor),
                    is_doubtful=is_doubtful,
                    is_text=False,
                    is_picture=is_picture,
                )


def _text(handle: Any, matrix: PdfMatrix | None, order: int, *, is_doubtful: bool) -> _Drawn:
    mode = raw.FPDFTextObj_GetTextRenderMode(handle)
    is_stroked = mode in _STROKED
    colour = _colour(
        handle, raw.FPDFPageObj_GetStrokeColor if is_stroked else raw.FPDFPageObj_GetFillColor
    )
    box = _box(handle, matrix)
    return _Drawn(
        handle=handle,
        box=box,
        order=order,
        colour=colour,
        is_doubtful=is_doubtful,
        is_text=True,
        is_unseen=mode in _UNSEEN or (colour is not None and colour[3] == 0),
        # the letters of a Type 3 font can be much larger than its size
        is_tiny=box[3] - box[1] <= 1.5 * TINY and _size(handle, matrix) <= TINY,
    )


def _is_clipped(handle: Any) -> bool:
    """Return whether clip paths may cut off text: all but rectangles around it."""
    if raw.FPDFPageObj_GetType(handle) not in {raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_FORM}:
        return False
    clip = raw.FPDFPageObj_GetClipPath(handle)
    paths = raw.FPDFClipPath_CountPaths(clip) if clip else 0
    if paths <= 0:
        return False
    left, bottom, right, top = _box(handle, None)
    if left == right or bottom == top:
        return False
    return paths > _MOST_CLIPS or any(
        points is None
        or not (points[0] <= left + 1 and points[1] <= bottom + 1)
        or not (points[2] >= right - 1 and points[3] >= top - 1)
        for points in (_rectangle(clip, number) for number in range(paths))
    )


def _rectangle(clip: Any, number: int) -> Box | None:
    """Return the rectangle of a clip path; None if it has another form."""
    count = raw.FPDFClipPath_CountPathSegments(clip, number)
    if not 0 < count <= _RECTANGLE:
        return None
    x, y = c_float(), c_float()
    xs: set[float] = set()
    ys: set[float] = set()
    for at in range(count):
        raw.FPDFPathSegment_GetPoint(raw.FPDFClipPath_GetPathSegment(clip, number, at), x, y)
        xs.add(x.value)
        ys.add(y.value)
    if len(xs) > 2 or len(ys) > 2:
        return None
    return min(xs), min(ys), max(xs), max(ys)


def _size(handle: Any, matrix: PdfMatrix | None) -> float:
    size = c_float()
    raw.FPDFTextObj_GetFontSize(handle, size)
    whole = _matrix(handle, matrix)
    return abs(size.value) * max(hypot(whole.a, whole.b), hypot(whole.c, whole.d))


def _is_filled(handle: Any) -> bool:
    mode, is_stroked = c_int(), c_int()
    raw.FPDFPath_GetDrawMode(handle, mode, is_stroked)
    return bool(mode.value != raw.FPDF_FILLMODE_NONE)


def _has_layer(handle: Any) -> bool:
    for number in range(raw.FPDFPageObj_CountMarks(handle)):
        name, size = create_string_buffer(16), c_ulong()
        mark = raw.FPDFPageObj_GetMark(handle, number)
        raw.FPDFPageObjMark_GetName(mark, cast(name, POINTER(c_ushort)), 16, size)
        if name.raw[: size.value] == "OC\0".encode("utf-16-le"):
            return True
    return False


def _colour(handle: Any, read: Callable[..., int]) -> _Colour | None:
    red, green, blue, alpha = c_uint(), c_uint(), c_uint(), c_uint()
    if not read(handle, red, green, blue, alpha):
        return None
    return red.value, green.value, blue.value, alpha.value


def _matrix(handle: Any, matrix: PdfMatrix | None) -> PdfMatrix:
    found = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(handle, found)
    own = PdfMatrix.from_raw(found)
    return own if matrix is None else own.multiply(matrix)


def _box(handle: Any, matrix: PdfMatrix | None) -> Box:
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    raw.FPDFPageObj_GetBounds(handle, left, bottom, right, top)
    box: Box = left.value, bottom.value, right.value, top.value
    return box if matrix is None else matrix.on_rect(*box)


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _overlaps(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _count_letters(page: PdfPage) -> int:
    with closing(page.get_textpage()) as textpage:
        return count_letters(textpage.get_text_range())
