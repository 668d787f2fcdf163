"""Writes the shapes of a slide as HTML, in reading order."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from posixpath import basename, dirname, join, normpath
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import hidden_letters
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive

_NAMES = {
    "presentationml": "p",
    "drawingml": "a",
    "drawingml/chart": "c",
    "drawingml/diagram": "dgm",
    "officeDocument/relationships": "r",
    "officeDocument/math": "m",
}
_DRAWING_2010 = "http://schemas.microsoft.com/office/drawing/2010/main"
_OPEN_XML = "http://schemas.openxmlformats.org/"
_PREFIXES = {
    **{f"http://purl.oclc.org/ooxml/{name}/main": it for name, it in _NAMES.items()},
    **{f"http://purl.oclc.org/ooxml/{name}": it for name, it in _NAMES.items()},
    f"{_OPEN_XML}presentationml/2006/main": "p",
    f"{_OPEN_XML}drawingml/2006/main": "a",
    f"{_OPEN_XML}drawingml/2006/chart": "c",
    f"{_OPEN_XML}drawingml/2006/diagram": "dgm",
    f"{_OPEN_XML}officeDocument/2006/relationships": "r",
    f"{_OPEN_XML}officeDocument/2006/math": "m",
    f"{_OPEN_XML}package/2006/relationships": "rel",
    f"{_OPEN_XML}markup-compatibility/2006": "mc",
}
_MAX_TOKENS = 3_000_000
"""Elements and attributes of a file; a slide has 1,000, and its layouts as many."""

_LINE_SHARE = 40
"""Shapes whose tops differ by less than this share of the slide's height stand in one line."""

_MAX_GROUPS = 20
_TITLES = ("title", "ctrTitle")
_LISTS = (None, "body", "obj")
"""Placeholders whose paragraphs are items of a list."""

_FILLS = ("a:solidFill", "a:gradFill", "a:blipFill", "a:pattFill")
_OTHER = "other"
_UNKNOWN_BACKGROUND = "background-image: url(x)"
"""CSS of a picture behind the text, against which text of any colour is content."""

_WHITE = "ffffff"
_RUNS = ("a:r", "a:fld", "mc:AlternateContent", f"{{{_DRAWING_2010}}}m")
_FILE_NAME = re.compile(r"\S+\.\w{3,4}|")


class Relation(NamedTuple):
    """A relation of a part: the last word of its type, and the part or address."""

    kind: str
    target: str


class SlidePackage:
    """The parts of a slide show and their relations. Raises ImportFailed."""

    def __init__(self, data: bytes) -> None:
        self._archive = XmlArchive(data, ".pptx", max_tokens=_MAX_TOKENS)

    def parse(self, part: str) -> Element:
        """Return the root of a part; an empty element if it is missing."""
        root = self._archive.parse(part, _PREFIXES)
        return Element("") if root is None else root

    def relations(self, part: str) -> Mapping[str, Relation]:
        """Return the relations of a part by their id."""
        folder = dirname(part)
        found: dict[str, Relation] = {}
        for it in self.parse(join(folder, "_rels", f"{basename(part)}.rels")).iter(
            "rel:Relationship"
        ):
            target = it.get("Target", "")
            if it.get("TargetMode") != "External":
                target = normpath(join("/", folder, target)).lstrip("/")
            found[it.get("Id", "")] = Relation(it.get("Type", "").rpartition("/")[2], target)
        return found

    def related(self, part: str, kind: str) -> Iterator[str]:
        """Yield the parts that a part names as ``kind``."""
        return (it.target for it in self.relations(part).values() if it.kind == kind)


class _Frame(NamedTuple):
    left: float
    top: float
    width: float
    height: float

    def overlaps(self, other: "_Frame") -> bool:
        return (
            self.left < other.left + other.width
            and other.left < self.left + self.width
            and self.top < other.top + other.height
            and other.top < self.top + self.height
        )


class _Scale(NamedTuple):
    """From the coordinates in a group to those of the slide."""

    x: float = 1
    y: float = 1
    left: float = 0
    top: float = 0

    def apply(self, frame: _Frame) -> _Frame:
        return _Frame(
            frame.left * self.x + self.left,
            frame.top * self.y + self.top,
            frame.width * self.x,
            frame.height * self.y,
        )


class _SlideShape(NamedTuple):
    element: Element
    frame: _Frame | None
    placeholder: Element | None


class SlideReader:
    """Reads one slide; ``hidden_chars`` counts the letters of shapes that nobody can see."""

    def __init__(self, package: SlidePackage, part: str, size: tuple[float, float]) -> None:
        self.hidden_chars = 0
        self.root = package.parse(part)
        self._package = package
        self._relations = package.relations(part)
        self._page = _Frame(0, 0, *size)
        layout = next(package.related(part, "slideLayout"), "")
        master = next(package.related(layout, "slideMaster"), "") if layout else ""
        self._layers = [package.parse(it) for it in (layout, master) if it]
        self._places = [_places(layer) for layer in self._layers]
        self._covers: list[_Frame] = []
        """Places of fills and pictures, in front of which a text's background is unknown."""
        self._background = _background([self.root, *self._layers])

    def read(self) -> tuple[str, str]:
        """Return the title, and the visible text as HTML, from top to bottom."""
        for layer in self._layers:
            self._covers += [
                it.frame for it in _shapes(layer) if it.frame and it.placeholder is None
            ]
        shapes = _shapes(self.root)
        shapes = [it._replace(frame=it.frame or self._inherited(it)) for it in shapes]
        self._covers += [it.frame for it in shapes if it.frame and _fill(it.element)]
        title, texts = "", []
        for shape in sorted(shapes, key=self._order):
            kind = _kind(shape)
            if self._is_hidden(shape):
                self.hidden_chars += letters_in(shape.element)
            elif kind in _TITLES and not title:
                title = " ".join(text_of(shape.element).split())
            elif kind != "sldNum":
                texts.append(self._shape_html(shape))
        return title, "".join(texts)

    def _order(self, shape: _SlideShape) -> tuple[bool, float, float]:
        frame = shape.frame or self._page
        line = round(frame.top * _LINE_SHARE / max(1, self._page.height))
        return _kind(shape) not in _TITLES, line, frame.left

    def _inherited(self, shape: _SlideShape) -> _Frame | None:
        """Return the place of a placeholder in the layout or master."""
        if shape.placeholder is None:
            return None
        kind, number = shape.placeholder.get("type", ""), shape.placeholder.get("idx", "")
        for places in self._places:
            for key in (("", number), (kind, "")):
                if key in places and any(key):
                    return places[key]
        return None

    def _is_hidden(self, shape: _SlideShape) -> bool:
        properties = next(shape.element.iter("p:cNvPr"), None)
        if properties is not None and properties.get("hidden") in ("1", "true"):
            return True
        return shape.frame is not None and not shape.frame.overlaps(
            self._page._replace(width=self._page.width + 1, height=self._page.height + 1)
        )

    def _shape_html(self, shape: _SlideShape) -> str:
        element = shape.element
        if element.tag == "p:pic":
            return _alternative(element)
        if element.tag == "p:graphicFrame":
            return f'<div style="{_UNKNOWN_BACKGROUND}">{self._graphic_html(element)}</div>'
        body = child(element, "p:txBody")
        if body is None:
            return ""
        is_list = shape.placeholder is not None and _kind(shape) in _LISTS
        html = _listed(self._paragraph(it, is_list=is_list) for it in _children(body, "a:p"))
        return f'<div style="{self._background_of(shape)}">{html}</div>'

    def _background_of(self, shape: _SlideShape) -> str:
        """Return the colour behind a text as CSS."""
        colour = _fill(shape.element)
        if not colour and not any(it.overlaps(shape.frame or self._page) for it in self._covers):
            colour = self._background
        is_known = colour not in ("", _OTHER)
        return f"background-color: #{colour}" if is_known else _UNKNOWN_BACKGROUND

    def _graphic_html(self, element: Element) -> str:
        """Return a table, chart or diagram as HTML."""
        if (table := next(element.iter("a:tbl"), None)) is not None:
            return self._table_html(table)
        if (chart := next(element.iter("c:chart"), None)) is not None:
            return _chart_html(self._related(chart.get("r:id", "")))
        if (diagram := next(element.iter("dgm:relIds"), None)) is not None:
            points = self._related(diagram.get("r:dm", "")).iter("dgm:t")
            items = (escape(text_of(it)) for it in points)
            return f"<ul>{''.join(f'<li>{item}</li>' for item in items if item.strip())}</ul>"
        return ""

    def _related(self, relation: str) -> Element:
        found = self._relations.get(relation)
        return Element("") if found is None else self._package.parse(found.target)

    def _table_html(self, table: Element) -> str:
        rows = []
        for number, row in enumerate(_children(table, "a:tr")):
            tag = "td" if number else "th"
            cells = "".join(
                f'<{tag} colspan="{_whole(it, "gridSpan", 1)}" '
                f'rowspan="{_whole(it, "rowSpan", 1)}">'
                f"{self._cell(it)}</{tag}>"
                for it in _children(row, "a:tc")
                if not {it.get("hMerge"), it.get("vMerge")} & {"1", "true"}
            )
            rows.append(f"<tr>{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"

    def _cell(self, cell: Element) -> str:
        paragraphs = (self._paragraph(it, is_list=False).html for it in cell.iter("a:p"))
        return "<br>".join(paragraphs)

    def _paragraph(self, paragraph: Element, *, is_list: bool) -> "_Paragraph":
        properties = child(paragraph, "a:pPr")
        bullets = {it.tag for it in properties} if properties is not None else set()
        marker = "ul" if is_list else ""
        if "a:buNone" in bullets:
            marker = ""
        elif "a:buAutoNum" in bullets:
            marker = "ol"
        elif bullets & {"a:buChar", "a:buBlip"}:
            marker = "ul"
        level = _whole(properties, "lvl", 0) if properties is not None else 0
        return _Paragraph(marker, min(level, 8), "".join(map(self._run, paragraph)))

    def _run(self, run: Element) -> str:
        if run.tag == "a:br":
            return "<br>"
        if run.tag not in _RUNS or run.get("type") == "slidenum":
            return ""
        html = escape(text_of(run))
        properties = child(run, "a:rPr")
        return html if properties is None else self._styled(html, properties)

    def _styled(self, html: str, properties: Element) -> str:
        baseline = _whole(properties, "baseline", 0)
        if baseline:
            tag = "sup" if baseline > 0 else "sub"
            html = f"<{tag}>{html}</{tag}>"
        if properties.get("b") in ("1", "true"):
            html = f"<b>{html}</b>"
        if colour := _solid(properties):
            html = f'<span style="color: #{colour}">{html}</span>'
        link = child(properties, "a:hlinkClick")
        target = self._relations.get("" if link is None else link.get("r:id", ""))
        if target is not None and ":" in target.target:
            html = f'<a href="{escape(target.target)}">{html}</a>'
        return html


class _Paragraph(NamedTuple):
    """A paragraph as HTML; ``marker`` is the tag of its list, or ""."""

    marker: str
    level: int
    html: str


def _listed(paragraphs: Iterable[_Paragraph]) -> str:
    """Return paragraphs as HTML with nested lists."""
    parts: list[str] = []
    lists: list[str] = []
    for marker, level, html in paragraphs:
        if not html.strip():
            continue
        depth = level + 1 if marker else 0
        while len(lists) > depth or (lists and len(lists) == depth and lists[-1] != marker):
            parts.append(f"</li></{lists.pop()}>")
        if not marker:
            parts.append(f"<p>{html}</p>")
            continue
        if len(lists) == depth:
            parts.append("</li><li>")
        while len(lists) < depth:
            parts.append(f"<{marker}><li>")
            lists.append(marker)
        parts.append(html)
    parts += [f"</li></{it}>" for it in reversed(lists)]
    return "".join(parts)


def _chart_html(chart: Element) -> str:
    """Return the values of a chart as a table: categories by series."""
    title = next(chart.iter("c:title"), None)
    heading = "" if title is None else f"<p>{escape(text_of(title))}</p>"
    columns: list[Mapping[int, str]] = []
    names: list[str] = []
    for number, series in enumerate(chart.iter("c:ser")):
        name, labels, values = (
            _points(series, *tags) for tags in (("c:tx",), ("c:cat", "c:xVal"), ("c:val", "c:yVal"))
        )
        if not number:
            columns.append(labels)
        columns.append(values)
        names.append(" ".join(name.values()))
    rows = sorted({point for column in columns for point in column})
    header = "".join(f"<th>{escape(name)}</th>" for name in ["", *names])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(column.get(row, ''))}</td>" for column in columns) + "</tr>"
        for row in rows
    )
    return f"{heading}<table><tr>{header}</tr>{body}</table>" if rows else heading


def _points(series: Element, *tags: str) -> Mapping[int, str]:
    """Return the stored values below the first of ``tags`` by their index."""
    for tag in tags:
        if (found := child(series, tag)) is not None:
            return {
                _whole(point, "idx", 0): "".join(it.text or "" for it in point.iter("c:v"))
                for point in found.iter("c:pt")
            }
    return {}


def child(element: Element, *path: str) -> Element | None:
    """Return the first descendant by the tags on the way to it."""
    found: Element | None = element
    for tag in path:
        if found is None:
            return None
        found = next(_children(found, tag), None)
    return found


def _children(element: Element, tag: str) -> Iterator[Element]:
    return (it for it in element if it.tag == tag)


def text_of(element: Element) -> str:
    """Return the text of runs and formulas, with a line for each paragraph."""
    parts: list[str] = []
    for it in element.iter():
        if it.tag in ("a:t", "m:t"):
            parts.append(it.text or "")
        elif it.tag in ("a:p", "a:br") and parts:
            parts.append("\n")
    return "".join(parts)


def letters_in(element: Element) -> int:
    """Return the number of letters in an element."""
    return hidden_letters([text_of(element)])


def _whole(element: Element, name: str, default: int) -> int:
    value = element.get(name, "").removesuffix("%")
    return int(value) if value.lstrip("-").isdigit() and len(value) < 16 else default


def _tree(root: Element) -> Element:
    found = child(root, "p:cSld", "p:spTree")
    return Element("") if found is None else found


def _shapes(root: Element) -> list[_SlideShape]:
    """Return the shapes of a slide or layout; those of groups one after another."""
    shapes: list[_SlideShape] = []
    _add_shapes(_tree(root), _Scale(), shapes, 0)
    return shapes


def _add_shapes(tree: Element, scale: _Scale, shapes: list[_SlideShape], depth: int) -> None:
    for element in tree:
        if element.tag == "mc:AlternateContent":
            choice = child(element, "mc:Choice")
            if choice is not None:
                _add_shapes(choice, scale, shapes, depth)
        elif element.tag == "p:grpSp" and depth < _MAX_GROUPS:
            _add_shapes(element, _group_scale(element, scale), shapes, depth + 1)
        elif element.tag in ("p:sp", "p:graphicFrame", "p:pic"):
            frame = _frame(element)
            placeholder = next(element.iter("p:ph"), None)
            shapes.append(_SlideShape(element, frame and scale.apply(frame), placeholder))


def _frame(element: Element) -> _Frame | None:
    transform = child(element, "p:spPr", "a:xfrm")
    if transform is None:
        transform = child(element, "p:xfrm")
    return None if transform is None else _box(transform, "a:off", "a:ext")


def _box(transform: Element, place: str, size: str) -> _Frame | None:
    off, ext = child(transform, place), child(transform, size)
    if off is None or ext is None:
        return None
    return _Frame(
        _whole(off, "x", 0), _whole(off, "y", 0), _whole(ext, "cx", 0), _whole(ext, "cy", 0)
    )


def _group_scale(group: Element, outer: _Scale) -> _Scale:
    transform = child(group, "p:grpSpPr", "a:xfrm")
    outside = None if transform is None else _box(transform, "a:off", "a:ext")
    inside = None if transform is None else _box(transform, "a:chOff", "a:chExt")
    if outside is None or inside is None or not (inside.width and inside.height):
        return outer
    x, y = outside.width / inside.width, outside.height / inside.height
    return _Scale(
        outer.x * x,
        outer.y * y,
        outer.left + outer.x * (outside.left - inside.left * x),
        outer.top + outer.y * (outside.top - inside.top * y),
    )


def _places(layer: Element) -> Mapping[tuple[str, str], _Frame]:
    """Return the places of placeholders by number, and by type."""
    places: dict[tuple[str, str], _Frame] = {}
    for shape in _shapes(layer):
        if shape.placeholder is not None and shape.frame is not None:
            places.setdefault(("", shape.placeholder.get("idx", "")), shape.frame)
            places.setdefault((shape.placeholder.get("type", "body"), ""), shape.frame)
    return places


def _kind(shape: _SlideShape) -> str | None:
    return None if shape.placeholder is None else shape.placeholder.get("type")


def _alternative(picture: Element) -> str:
    """Return the description of a picture, unless it is its file's name."""
    properties = next(picture.iter("p:cNvPr"), None)
    text = "" if properties is None else properties.get("descr", "").strip()
    return "" if _FILE_NAME.fullmatch(text) else f"<p>{escape(text)}</p>"


def _fill(element: Element) -> str:
    """Return the colour of a shape, _OTHER for a picture or another fill, or ""."""
    if element.tag == "p:pic":
        return _OTHER
    properties = child(element, "p:spPr")
    found = [] if properties is None else [it for it in properties if it.tag in _FILLS]
    if found:
        return _solid(properties) or _OTHER if properties is not None else _OTHER
    style = child(element, "p:style", "a:fillRef")
    has_none = properties is not None and child(properties, "a:noFill") is not None
    return _OTHER if style is not None and style.get("idx") != "0" and not has_none else ""


def _solid(properties: Element) -> str:
    """Return the colour of a solid fill as hexadecimal digits, or "" if it is unknown."""
    colour = child(properties, "a:solidFill", "a:srgbClr")
    return "" if colour is None or len(colour) else colour.get("val", "").lower()


def _background(layers: Sequence[Element]) -> str:
    """Return the colour behind a slide: its own, its layout's or its master's, or ""."""
    for layer in layers:
        if (found := child(layer, "p:cSld", "p:bg")) is not None:
            own = child(found, "p:bgPr")
            if own is not None:
                return _solid(own)
            break
    colours = child(layers[-1], "p:clrMap") if layers else None
    is_light = colours is None or colours.get("bg1", "lt1") == "lt1"
    return _WHITE if is_light else ""
