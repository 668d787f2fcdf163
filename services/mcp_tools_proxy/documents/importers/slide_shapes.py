"""Writes the shapes of a slide as HTML, in reading order."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from posixpath import basename, dirname, join, normpath
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import hidden_letters
from mcp_tools_proxy.documents.importers.css_colours import Colour
from mcp_tools_proxy.documents.importers.slide_looks import (
    ShapeFill,
    SlideDesign,
    SlideTheme,
    TextLook,
    fill_in,
)
from mcp_tools_proxy.documents.importers.slide_places import (
    TITLES,
    Relation,
    SlideFrame,
    SlideLayer,
    SlideShape,
    child,
    children,
    first_target,
    geometry_of,
    kind_of,
    shapes_of,
    whole_number,
)
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
}
_MAX_TOKENS = 3_000_000
"""Elements and attributes of a file; a slide has 1,000, and its layouts as many."""

_LINE_SHARE = 40
"""Shapes whose tops differ by less than this share of the slide's height stand in one line."""

_MAX_SHARED = 6
_LISTS = (None, "body", "obj")
"""Placeholders whose paragraphs are items of a list."""

_NO_TABLE_STYLES = (
    "",
    "{2D5ABB26-0587-4C30-8999-92F81FD0307C}",
    "{5940675A-B579-460E-94D1-54222C63F5DA}",
)
"""Styles of tables without a fill."""

_LEAST_SHARE = 100
"""What covers less of the slide's width or height than this share has no room for a letter."""

_SMALLEST_PICTURE = 500
"""Nobody sees a picture of less than this share of the slide's width or height."""

_MAX_COMPARISONS = 10_000_000
"""Pairs of a shape and one that may be behind or in front of it; 100 slides have 200,000."""

_RUNS = ("a:r", "a:fld", f"{{{_DRAWING_2010}}}m")
_FILE_NAME = re.compile(r"\S+\.\w{3,4}|")


class SlidePackage:
    """The parts of a slide show and their relations. Raises ImportFailed."""

    def __init__(self, data: bytes) -> None:
        self._archive = XmlArchive(data, ".pptx", max_tokens=_MAX_TOKENS)
        self._layers: dict[str, SlideLayer] = {}
        self._themes: dict[str, SlideTheme] = {}
        self._comparisons = 0

    def parse(self, part: str) -> Element:
        """Return the root of a part; an empty element if it is missing."""
        root = self._archive.parse(part, _PREFIXES)
        return Element("") if root is None else root

    def layer(self, part: str) -> SlideLayer:
        """Return a layout or master, which consecutive slides often share."""
        if part not in self._layers:
            if len(self._layers) >= _MAX_SHARED:
                self._layers.clear()
            self._layers[part] = SlideLayer(self.parse(part), self.relations(part))
        return self._layers[part]

    def theme(self, part: str) -> SlideTheme:
        """Return a theme; "" is the usual one."""
        if part not in self._themes:
            if len(self._themes) >= _MAX_SHARED:
                self._themes.clear()
            self._themes[part] = SlideTheme(self.parse(part) if part else None)
        return self._themes[part]

    def can_compare(self, count: int) -> bool:
        """Return whether the shapes of the file can be compared ``count`` times more."""
        self._comparisons += count
        return self._comparisons <= _MAX_COMPARISONS

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


class _Cover(NamedTuple):
    """A filled shape or picture with its number in the order from back to front.

    ``colour`` is None if text of any colour can be seen on it.
    """

    number: int
    frame: SlideFrame
    colour: Colour | None
    is_opaque: bool


class _TextPlace(NamedTuple):
    """Where text stands: in a shape, on what may be behind it."""

    shape: Element
    templates: Sequence[Element]
    kind: str | None
    grounds: Sequence[Colour | None]
    looks: dict[int, TextLook]
    """By level."""


class SlideReader:
    """Reads one slide; ``hidden_chars`` counts the hidden letters."""

    def __init__(
        self,
        package: SlidePackage,
        part: str,
        size: tuple[float, float],
        default_text: Element | None,
    ) -> None:
        self.hidden_chars = 0
        self.root = package.parse(part)
        self._package = package
        self._relations = package.relations(part)
        self._page = SlideFrame(0, 0, *size)
        self._layers: list[SlideLayer] = []
        sources = [self._relations]
        for kind in ("slideLayout", "slideMaster"):
            if name := first_target(sources[-1], kind):
                self._layers.append(package.layer(name))
                sources.append(self._layers[-1].relations)
        kinds = ["themeOverride", "themeOverride", "theme"][: len(sources)]
        themes = (first_target(it, kind) for it, kind in zip(sources, kinds, strict=True))
        self._design = SlideDesign(
            self.root,
            [it.root for it in self._layers],
            package.theme(next(filter(None, themes), "")),
            default_text,
        )
        self._covers: list[_Cover] = []
        """From back to front."""
        self._can_cover = next(self.root.iter("p:timing"), None) is None
        """Whether nothing moves: then a shape always hides text behind it."""
        self._is_crowded = False
        """Whether there are too many shapes to compare their places."""

    def read(self) -> tuple[str, str]:
        """Return the title, and the visible text as HTML, from top to bottom."""
        shapes = [
            it._replace(frame=it.frame or self._inherited_frame(it)) for it in shapes_of(self.root)
        ]
        numbers = {id(it.element): number for number, it in enumerate(shapes)}
        for layer in reversed(self._shown_layers()):
            self._add_covers(-1, (it for it in layer.shapes if it.placeholder is None))
        for number, shape in enumerate(shapes):
            self._add_covers(number, [shape])
        self._is_crowded = not self._package.can_compare(len(shapes) * len(self._covers))
        title, texts = "", []
        for shape in sorted(shapes, key=self._order):
            kind, number = kind_of(shape), numbers[id(shape.element)]
            if self._is_hidden(shape, number):
                self.hidden_chars += letters_in(shape.element)
            elif kind in TITLES and not title:
                title = self._title(shape, number)
            elif kind != "sldNum":
                texts.append(self._shape_html(shape, number))
        return title, "".join(texts)

    def _shown_layers(self) -> list[SlideLayer]:
        """Return the layers whose shapes are behind those of the slide."""
        shown: list[SlideLayer] = []
        above = self.root
        for layer in self._layers:
            if above.get("showMasterSp") in ("0", "false"):
                break
            shown.append(layer)
            above = layer.root
        return shown

    def _order(self, shape: SlideShape) -> tuple[bool, float, float]:
        frame = shape.frame or self._page
        line = round(frame.top * _LINE_SHARE / max(1, self._page.height))
        return kind_of(shape) not in TITLES, line, frame.left

    def _templates(self, shape: SlideShape) -> list[SlideShape]:
        """Return the placeholders of the layout and master that a placeholder is based on."""
        found = []
        placeholder = shape.placeholder
        for layer in self._layers:
            if placeholder is not None and (match := layer.placeholder(placeholder)) is not None:
                found.append(match)
                placeholder = match.placeholder
        return found

    def _inherited_frame(self, shape: SlideShape) -> SlideFrame | None:
        return next((it.frame for it in self._templates(shape) if it.frame), None)

    def _add_covers(self, number: int, shapes: Iterable[SlideShape]) -> None:
        for shape in shapes:
            fill = self._fill(shape)
            if shape.frame is None or shape.is_hidden or not fill.is_filled:
                continue
            is_opaque = fill.colour is not None and geometry_of(shape.element) == "rect"
            if self._has_room(shape.frame, shape.frame):
                self._covers.append(_Cover(number, shape.frame, fill.colour, is_opaque))

    def _has_room(self, one: SlideFrame, other: SlideFrame) -> bool:
        """Return whether a letter has room where two frames overlap."""
        width, height = one.shared(other)
        return (
            width * _LEAST_SHARE >= self._page.width and height * _LEAST_SHARE >= self._page.height
        )

    def _fill(self, shape: SlideShape) -> ShapeFill:
        if shape.element.tag != "p:sp":
            return ShapeFill(is_filled=True)
        templates = [it.element for it in self._templates(shape)]
        return self._design.fill(shape.element, templates)

    def _is_hidden(self, shape: SlideShape, number: int) -> bool:
        frame = shape.frame
        if shape.is_hidden:
            return True
        if frame is None:
            return False
        if shape.element.tag == "p:pic" and (
            frame.width * _SMALLEST_PICTURE < self._page.width
            or frame.height * _SMALLEST_PICTURE < self._page.height
        ):
            return True
        seen = frame.shared(self._page)
        needed = (
            min(size / 2, whole / _LEAST_SHARE)
            for size, whole in zip(frame[2:], self._page[2:], strict=True)
        )
        if any(it < least for it, least in zip(seen, needed, strict=True)):
            return True
        return self._is_covered(shape, frame, number)

    def _is_covered(self, shape: SlideShape, frame: SlideFrame, number: int) -> bool:
        """Return whether another shape is in front of all of a text box."""
        return (
            self._can_cover
            and shape.element.tag == "p:sp"
            and frame.width * frame.height > 0
            and not self._is_crowded
            and any(
                it.number > number and it.is_opaque and it.frame.contains(frame)
                for it in self._covers
            )
        )

    def _grounds(self, shape: SlideShape, number: int) -> Sequence[Colour | None]:
        """Return the colours that may be behind a text; None is an unknown one."""
        fill = self._fill(shape)
        if shape.element.tag == "p:sp" and fill.is_filled:
            return [fill.colour]
        if self._is_crowded:
            return [None]
        frame = self._text_frame(shape)
        grounds = []
        for it in reversed(self._covers):
            if it.number < number and self._has_room(it.frame, frame):
                grounds.append(it.colour)
                if it.frame.contains(frame):
                    return grounds
        return [*grounds, self._design.background]

    def _text_frame(self, shape: SlideShape) -> SlideFrame:
        """Return where the text of a shape can be: it can be larger than the shape."""
        if shape.frame is None:
            return self._page
        body = child(shape.element, "p:txBody", "a:bodyPr")
        is_one_line = body is not None and body.get("wrap") == "none"
        return shape.frame.wider(
            self._page.width / (4 if is_one_line else _LEAST_SHARE), self._page.height / 20
        )

    def _text_place(self, shape: SlideShape, number: int) -> _TextPlace:
        templates = [it.element for it in self._templates(shape)]
        grounds = self._grounds(shape, number)
        return _TextPlace(shape.element, templates, kind_of(shape), grounds, {})

    def _title(self, shape: SlideShape, number: int) -> str:
        place = self._text_place(shape, number)
        parts: list[str] = []
        for paragraph in shape.element.iter("a:p"):
            level = _level(paragraph)
            seen = (it for it in paragraph if self._is_seen(it, place, level))
            parts += (" " if it.tag == "a:br" else text_of(it) for it in seen)
            parts.append(" ")
        return " ".join("".join(parts).split())

    def _shape_html(self, shape: SlideShape, number: int) -> str:
        element = shape.element
        if element.tag == "p:pic":
            return _alternative(element)
        place = self._text_place(shape, number)
        if element.tag == "p:graphicFrame":
            return self._graphic_html(element, place)
        body = child(element, "p:txBody")
        if body is None:
            return ""
        is_list = shape.placeholder is not None and kind_of(shape) in _LISTS
        return _listed(self._paragraph(it, place, is_list=is_list) for it in children(body, "a:p"))

    def _is_seen(self, run: Element, place: _TextPlace, level: int) -> bool:
        """Return whether a run can be seen; the letters of another are counted."""
        if run.tag not in _RUNS:
            return True
        if level not in place.looks:
            place.looks[level] = self._design.text(place.shape, place.templates, place.kind, level)
        properties = child(run, "a:rPr")
        look = self._design.run(properties, place.looks[level])
        if not look.is_unseen(self._design.behind_run(properties, place.grounds)):
            return True
        self.hidden_chars += letters_in(run)
        return False

    def _graphic_html(self, element: Element, place: _TextPlace) -> str:
        """Return a table, chart or diagram as HTML."""
        if (table := next(element.iter("a:tbl"), None)) is not None:
            return self._table_html(table, place)
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

    def _table_html(self, table: Element, place: _TextPlace) -> str:
        style = child(table, "a:tblPr", "a:tableStyleId")
        if style is not None and (style.text or "") not in _NO_TABLE_STYLES:
            place = place._replace(grounds=[None])
        rows = []
        for number, row in enumerate(children(table, "a:tr")):
            tag = "td" if number else "th"
            cells = "".join(
                f'<{tag} colspan="{whole_number(it, "gridSpan", 1)}" '
                f'rowspan="{whole_number(it, "rowSpan", 1)}">'
                f"{self._cell(it, place)}</{tag}>"
                for it in children(row, "a:tc")
                if not {it.get("hMerge"), it.get("vMerge")} & {"1", "true"}
            )
            rows.append(f"<tr>{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"

    def _cell(self, cell: Element, place: _TextPlace) -> str:
        properties = child(cell, "a:tcPr")
        fill = None if properties is None else fill_in(properties)
        if fill is not None and fill.tag != "a:noFill":
            place = place._replace(grounds=[self._design.solid(fill)])
        paragraphs = (self._paragraph(it, place, is_list=False).html for it in cell.iter("a:p"))
        return "<br>".join(paragraphs)

    def _paragraph(self, paragraph: Element, place: _TextPlace, *, is_list: bool) -> "_Paragraph":
        properties = child(paragraph, "a:pPr")
        bullets = {it.tag for it in properties} if properties is not None else set()
        marker = "ul" if is_list else ""
        if "a:buNone" in bullets:
            marker = ""
        elif "a:buAutoNum" in bullets:
            marker = "ol"
        elif bullets & {"a:buChar", "a:buBlip"}:
            marker = "ul"
        level = _level(paragraph)
        runs = (self._run(it) for it in paragraph if self._is_seen(it, place, level))
        return _Paragraph(marker, level, "".join(runs))

    def _run(self, run: Element) -> str:
        if run.tag == "a:br":
            return "<br>"
        if run.tag not in _RUNS or run.get("type") == "slidenum":
            return ""
        html = escape(text_of(run))
        properties = child(run, "a:rPr")
        return html if properties is None else self._styled(html, properties)

    def _styled(self, html: str, properties: Element) -> str:
        baseline = whole_number(properties, "baseline", 0)
        if baseline:
            tag = "sup" if baseline > 0 else "sub"
            html = f"<{tag}>{html}</{tag}>"
        if properties.get("strike", "noStrike") != "noStrike":
            html = f"<s>{html}</s>"
        if properties.get("b") in ("1", "true"):
            html = f"<b>{html}</b>"
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
                whole_number(point, "idx", 0): "".join(it.text or "" for it in point.iter("c:v"))
                for point in found.iter("c:pt")
            }
    return {}


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


def _level(paragraph: Element) -> int:
    properties = child(paragraph, "a:pPr")
    return 0 if properties is None else min(max(whole_number(properties, "lvl", 0), 0), 8)


def _alternative(picture: Element) -> str:
    """Return the description of a picture, unless it is its file's name."""
    properties = next(picture.iter("p:cNvPr"), None)
    text = "" if properties is None else properties.get("descr", "").strip()
    return "" if _FILE_NAME.fullmatch(text) else f"<p>{escape(text)}</p>"
