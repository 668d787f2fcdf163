"""Imports Word files (DOCX) as Markdown."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    TOO_DEEP,
    FileFacts,
    ImportFailed,
    ImportOptions,
    WarningCode,
    build_document,
    lost_equations,
    one_line,
    warning,
)
from mcp_tools_proxy.documents.importers.css_colours import WHITE, Colour
from mcp_tools_proxy.documents.importers.docx_blocks import (
    PAGE_START,
    Block,
    TableCell,
    TableRow,
    lay_out,
    table_blocks,
)
from mcp_tools_proxy.documents.importers.docx_colours import WordColours
from mcp_tools_proxy.documents.importers.docx_numbering import (
    ListLabel,
    Numbering,
    continues,
    is_within,
    left_of,
)
from mcp_tools_proxy.documents.importers.docx_package import PartReference, WordPackage
from mcp_tools_proxy.documents.importers.docx_sections import (
    page_area,
    section_properties,
    section_starts,
)
from mcp_tools_proxy.documents.importers.docx_shapes import WordShapes
from mcp_tools_proxy.documents.importers.docx_styles import (
    Styles,
    is_on,
    is_set,
    outline_level,
    value_of,
)
from mcp_tools_proxy.documents.importers.docx_table_styles import (
    NO_PROPERTIES,
    CellFormat,
    StyledTable,
)
from mcp_tools_proxy.documents.importers.docx_text import (
    Anchored,
    NoteReference,
    ParagraphText,
    StoryPlace,
    WordState,
    listed_notes,
    mark_open_fields,
)
from mcp_tools_proxy.documents.importers.markdown_writer import Run, RunStyle, render_runs
from mcp_tools_proxy.documents.importers.running_titles import running_title
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document, ImportWarning

_LONGEST_HEADING = 300
"""Longer paragraphs with an outline level are text: clauses of contracts."""

_ONLY_INSERTED = "has its text in inserted documents, which are not read: save it in Word"

_LIST_MARKER = re.compile(r"-|\d{1,9}[.)]")

_WORD_OVER_PAGES = re.compile(rf"(?<=\w)({PAGE_START}+)(\w\S*\s?)")

_SMALLEST_HEIGHT = 20
"""Rows and lines of exactly this height, in twentieths of a point, or less show nothing."""

_MAX_SPAN = 63
"""The most columns of a table in Word."""


def import_docx(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a Word file; headings become sections.

    Pages start where Word drew them, if the file says so. Raises ImportFailed.
    """
    try:
        return _WordFile(data, options).document()
    except RecursionError as error:
        raise ImportFailed(TOO_DEEP) from error


class _WordFile:
    """A Word file that is being read."""

    def __init__(self, data: bytes, options: ImportOptions) -> None:
        self.options = options
        self._package = WordPackage(data)
        self._settings = self._package.part_of_kind("settings")[1]
        self.colours = WordColours(self._package.part_of_kind("theme")[1], self._settings)
        self.styles = Styles(self._package.part_of_kind("styles")[1], self.colours)
        self.numbering = Numbering(
            self._package.part_of_kind("numbering")[1],
            self.styles.list_styles,
            is_english=self.styles.is_english,
        )
        self._root = self._package.root()
        body = self._root.find("w_body")
        self._sections = [] if body is None else list(section_properties(body))
        self.page = page_area(self._sections)
        self.shapes = WordShapes(self.colours, self.page)
        self.state = WordState(
            self.styles, self.shapes, with_link_targets=options.with_link_targets
        )
        self._notes: dict[str, tuple[Mapping[str, Element], Mapping[str, PartReference]]] = {}
        self._shown_notes: set[NoteReference] = set()
        self._title: list[str] = []
        self._is_title_open = True
        self._first_heading = ""

    def document(self) -> Document:
        """Read everything. Raises ImportFailed."""
        root, sections = self._root, self._sections
        self._prepare(root)
        self.state.listed_notes = listed_notes(root, self.styles)
        body = root.find("w_body")
        page_colour = self._page_colour(root)
        if not self._package.has_pictures:
            self.shapes.set_page_colour(page_colour, [root, *self._margins()])
        story = WordStory(
            self,
            self._package.links,
            StoryPlace("body", page_colour),
            section_starts(sections),
        )
        blocks = [] if body is None else list(story.read(body))
        headers = self._running_titles(sections, "header")
        footers = self._running_titles(sections, "footer")
        blocks = [*headers, *blocks, *footers]
        if not any(block.text.strip(f"{PAGE_START}\n ") for block in blocks):
            raise ImportFailed(_ONLY_INSERTED if self._package.inserted_documents else EMPTY)
        pages, headings = lay_out(blocks, has_word_pages=self.state.has_word_pages)
        title = own_title(" ".join(self._title)) or self._property_title() or self._first_heading
        return build_document(
            self.options,
            facts=FileFacts(title=title),
            pages=pages,
            headings=headings,
            text_format="markdown",
            warnings=list(self._warnings()),
            hidden_chars=self.state.hidden_chars,
        )

    def add_to_title(self, text: str) -> None:
        """Add a paragraph in the style Title; "" for one in another style, which ends the title."""
        if text and self._is_title_open and len(text) <= _LONGEST_HEADING:
            self._title.append(text)
        elif self._title:
            self._is_title_open = False

    def add_heading(self, text: str) -> None:
        """Add a heading without its number: the first is the title of a file without one."""
        self._first_heading = self._first_heading or text

    def note_blocks(self, note: NoteReference) -> Iterator[Block]:
        """Yield the blocks of a footnote or endnote, once."""
        element, links = self._note(note.kind, note.note_id)
        if element is not None and note not in self._shown_notes:
            self._shown_notes.add(note)
            yield from WordStory(self, links, StoryPlace("note")).read(element)

    def comment(self, comment_id: str) -> str:
        """Return a reviewer's comment with its author."""
        element, links = self._note("comment", comment_id)
        if element is None:
            return ""
        blocks = WordStory(self, links, StoryPlace("note")).read(element)
        text = " ".join(block.flat for block in blocks)
        author = one_line(element.get("w_author", ""))
        return f"[Comment{' by ' if author else ''}{author}: {text}]" if text else ""

    def _note(self, kind: str, note_id: str) -> tuple[Element | None, Mapping[str, PartReference]]:
        """Return a note or comment, and the links of its part."""
        if kind not in self._notes:
            name, root = self._package.part_of_kind(f"{kind}s")
            if root is not None:
                self._prepare(root)
            found = {it.get("w_id", ""): it for it in (root if root is not None else ())}
            self._notes[kind] = found, self._package.relations(name)
        notes, links = self._notes[kind]
        return notes.get(note_id), links

    def _prepare(self, root: Element) -> None:
        """Prepare a part before it is read. Raises ImportFailed."""
        mark_open_fields(root)
        self.shapes.add_types(root)

    def _margins(self) -> Iterator[Element]:
        """Yield the roots of all headers and footers. Raises ImportFailed."""
        names = {
            it.target for it in self._package.links.values() if it.kind in ("header", "footer")
        }
        yield from (root for name in names if (root := self._package.part(name)) is not None)

    def _page_colour(self, root: Element) -> Colour | None:
        background = root.find("w_background")
        if background is None or not is_set(self._settings, "w_displayBackgroundShape"):
            return WHITE
        if background.find("v_background/v_fill") is not None:
            return None
        return self.colours.read(background, "w_color", "w_themeColor") or (
            WHITE if background.get("w_color", "auto") == "auto" else None
        )

    def _property_title(self) -> str:
        return own_title(one_line(self._package.title()))

    def _running_titles(self, sections: list[Element], kind: str) -> list[Block]:
        """Return the text of each header or footer that is shown, once."""
        found: dict[str, None] = {}
        has_even_pages = is_set(self._settings, "w_evenAndOddHeaders")
        for section in sections:
            for reference in section.iterfind(f"w_{kind}Reference"):
                variant = reference.get("w_type", "default")
                if (variant == "first" and not is_set(section, "w_titlePg")) or (
                    variant == "even" and not has_even_pages
                ):
                    continue
                relation = self._package.links.get(reference.get("r_id", ""))
                if relation is not None and not relation.is_external:
                    found[self._running_title(relation.target)] = None
        return [Block(text=f"[{kind.capitalize()}: {text}]", flat=text) for text in found if text]

    def _running_title(self, name: str) -> str:
        root = self._package.part(name)
        if root is None:
            return ""
        self._prepare(root)
        story = WordStory(self, self._package.relations(name), StoryPlace("running title"))
        return running_title(
            line
            for block in story.read(root)
            for line in (block.flat if block.is_table else block.text).split("\n")
        )

    def _warnings(self) -> Iterator[ImportWarning]:
        yield from lost_equations(self.state.equations.unknown + self.state.lost_pictures)
        if count := self._package.inserted_documents:
            what = "inserted document was" if count == 1 else "inserted documents were"
            yield warning(WarningCode.INSERTED_DOCUMENTS, f"{count} {what} left out")


class WordStory:
    """Reads the blocks of a part of the text: the body, a cell, a text box, a note, a header."""

    def __init__(
        self,
        file: _WordFile,
        links: Mapping[str, PartReference],
        place: StoryPlace,
        section_starts: Iterable[bool] = (),
    ) -> None:
        self._file = file
        self._links = links
        self._kind = place.kind
        self._place = place
        self._section_starts = iter(section_starts)
        self._text = ParagraphText(file.state, links, place)
        self._carried: list[Run] = []
        self._columns: list[tuple[ListLabel, int]] = []
        self._notes: list[NoteReference] = []
        self._comments: list[str] = []
        self._readers: Mapping[str, Callable[[Element], Iterator[Block]]] = {
            "w_p": self._paragraph,
            "w_tbl": self._table,
            **dict.fromkeys(_WRAPPERS, self._inside),
        }

    def read(self, parent: Element) -> Iterator[Block]:
        """Yield the blocks, each with its comments, and the notes at the end of each section."""
        for block in self._blocks(parent):
            if block.level is not None:
                yield from self._noted(("footnote",))
            yield block
            yield from self._commented()
        yield from self._commented()
        yield from self._noted(("footnote", "endnote"))

    def _blocks(self, parent: Element) -> Iterator[Block]:
        yield from self._inside(parent)
        yield from self._carried_over()

    def _inside(self, parent: Element) -> Iterator[Block]:
        for child in parent:
            read = self._readers.get(child.tag)
            if read is not None:
                yield from read(child)

    def _nested(self, parent: Element, place: StoryPlace) -> list[Block]:
        if self._kind in {"note", "running title"}:
            place = place._replace(kind=self._kind)
        story = WordStory(self._file, self._links, place)
        blocks = list(story._blocks(parent))
        self._notes += story._notes
        self._comments += story._comments
        return blocks

    def _paragraph(self, element: Element) -> Iterator[Block]:
        properties = element.find("w_pPr")
        style = value_of(properties, "w_pStyle") or self._file.styles.default_paragraph
        if self._kind == "body" and self._starts_page(properties, style):
            self._file.state.break_page()
        runs, anchored = self._text.read(
            element,
            style,
            self._behind(properties, style),
            is_unseen=self._is_out_of_sight(properties, style),
        )
        runs = [*self._carried, *runs]
        self._carried = []
        if _is_joined(properties):
            self._carried = runs
        else:
            yield from self._written(runs, properties, style)
        yield from self._anchored(anchored)
        if self._kind == "body" and not self._carried:
            yield from self._commented()
        ends_section = properties is not None and properties.find("w_sectPr") is not None
        if ends_section and next(self._section_starts, False):
            self._file.state.break_page()

    def _starts_page(self, properties: Element | None, style: str) -> bool:
        found = self._property(properties, style, "w_pageBreakBefore")
        return found is not None and is_on(found.get("w_val"))

    def _property(self, properties: Element | None, style: str, name: str) -> Element | None:
        """Return a property of a paragraph, or of its style."""
        own = None if properties is None else properties.find(name)
        return self._file.styles.paragraph(style).get(name) if own is None else own

    def _is_out_of_sight(self, properties: Element | None, style: str) -> bool:
        """Return whether the lines of a paragraph have no height, or are off the page."""
        frame = self._property(properties, style, "w_framePr")
        return (
            self._place.is_unseen
            or _is_flat(self._property(properties, style, "w_spacing"), "w_line", "w_lineRule")
            or (frame is not None and self._file.shapes.is_frame_off(frame))
            or self._is_indent_off(properties, style)
        )

    def _is_indent_off(self, properties: Element | None, style: str) -> bool:
        own = None if properties is None else properties.find("w_ind")
        return self._file.page.is_indent_off(
            (self._file.styles.paragraph(style).get("w_ind"), own),
            self._property(properties, style, "w_jc"),
            "column" if self._kind == "body" else "cell",
        )

    def _behind(self, properties: Element | None, style: str) -> Colour | None:
        """Return the colour behind a paragraph, or None if it is unknown."""
        shade = self._property(properties, style, "w_shd")
        return self._file.colours.behind(shade, self._place.background)

    def _carried_over(self) -> Iterator[Block]:
        if self._carried:
            runs, self._carried = self._carried, []
            yield from self._written(runs, None, "")

    def _written(self, runs: list[Run], properties: Element | None, style: str) -> Iterator[Block]:
        if self._kind == "running title":
            runs = [(text, RunStyle(script=look.script)) for text, look in runs]
        elif self._kind == "cell" and all(look.bold or not text.strip() for text, look in runs):
            runs = [(text, look._replace(bold=False)) for text, look in runs]
        level = self._heading_level(properties, style)
        page_starts = sum(text.count(PAGE_START) for text, _ in runs)
        title = _plain(runs)
        label = None
        if title or not is_set(properties, "w_rPr/w_vanish"):
            label = self._label(properties, style)
        shown = "" if label is None or (label.is_bullet and level) else label.text
        if not title:
            self._file.state.add_page_starts(page_starts)
            if self._kind == "cell":
                shown = "" if label is not None and label.is_bullet else shown
                yield Block(text=shown, flat=shown)
            return
        if self._kind in {"body", "cell", "box"}:
            self._file.add_to_title(title if self._file.styles.is_title(style) else "")
        if level is not None and len(title) <= _LONGEST_HEADING:
            self._columns.clear()
            self._file.add_heading(title)
            yield _heading(runs, level, shown, page_starts)
        else:
            is_labelled = label is not None and (shown or label.is_bullet)
            yield self._body_text(runs, label if is_labelled else None)

    def _body_text(self, runs: list[Run], label: ListLabel | None) -> Block:
        """Return a paragraph or list item of visible text."""
        first = next(number for number, (text, _) in enumerate(runs) if text.strip(_BLANKS))
        leading = PAGE_START * sum(text.count(PAGE_START) for text, _ in runs[:first])
        body = _WORD_OVER_PAGES.sub(r"\2\1", render_runs(runs[first:]))
        visible = body.rstrip(_BLANKS)
        self._file.state.add_page_starts(body[len(visible) :].count(PAGE_START))
        flat = leading + visible.replace("\n", " ")
        if label is None:
            self._columns.clear()
            return Block(text=leading + visible, flat=flat)
        lines = visible.split("\n")
        if not label.text:  # pandoc writes the further paragraphs of an item with blank bullets
            while self._columns and not continues(label, self._columns[-1][0]):
                self._columns.pop()
            margin = " " * (self._columns[-1][1] if self._columns else 0)
            return Block(text=leading + margin + f"\n{margin}".join(lines), flat=flat)
        while self._columns and not is_within(label, self._columns[-1][0]):
            self._columns.pop()
        indent = self._columns[-1][1] if self._columns else 0
        is_marker = _LIST_MARKER.fullmatch(label.text) is not None
        inner = indent + (len(label.text) + 1 if is_marker else 0)
        self._columns.append((label, inner))
        lines[0] = f"{' ' * indent}{label.text} {lines[0]}"
        return Block(
            text=leading + f"\n{' ' * inner}".join(lines),
            flat=f"{leading}{label.text} {flat[len(leading) :]}",
            is_item=is_marker,
        )

    def _heading_level(self, properties: Element | None, style: str) -> int | None:
        own = None if properties is None else properties.find("w_outlineLvl")
        if own is not None:
            return outline_level(own)
        return self._file.styles.heading_level(style)

    def _label(self, properties: Element | None, style: str) -> ListLabel | None:
        """Count a paragraph of a list, and return its number or bullet."""
        numbers = None if properties is None else properties.find("w_numPr")
        list_id, level = value_of(numbers, "w_numId"), value_of(numbers, "w_ilvl")
        numbering = self._file.numbering
        if not list_id:
            list_id, style_level, owner = self._file.styles.list_of(style)
            linked = (numbering.level_of(list_id, it) for it in (style, owner))
            found = next((it for it in linked if it is not None), None)
            level = level or (style_level if found is None else str(found))
        if list_id in {"", "0"}:
            return None
        label = numbering.next_label(list_id, int(level) if level.isdecimal() else 0)
        if label is None:
            return None
        own = left_of(None if properties is None else properties.find("w_ind"))
        of_style = left_of(self._file.styles.paragraph(style).get("w_ind"))
        # the indentation of a style replaces that of the list only if the style names the list
        others = (label.left, of_style) if value_of(numbers, "w_numId") else (of_style, label.left)
        return replace(label, left=next((it for it in (own, *others) if it is not None), None))

    def _anchored(self, anchored: Anchored) -> Iterator[Block]:
        self._notes += anchored.notes
        if self._file.options.with_notes and self._kind != "note":
            self._comments += anchored.comments
        for box in anchored.boxes:
            if box.is_hidden:
                self._file.state.count_hidden(box.element)
            else:
                place = StoryPlace("box", box.background, is_in_front=True)
                yield from self._nested(box.element, place)

    def _noted(self, kinds: tuple[str, ...]) -> Iterator[Block]:
        """Yield the notes that were referred to, each once."""
        due = [it for it in self._notes if it.kind in kinds]
        self._notes = [it for it in self._notes if it.kind not in kinds]
        for found in due:
            for number, block in enumerate(self._file.note_blocks(found)):
                start = "" if number else f"[{found.label}] "
                yield Block(text=start + block.text, flat=start + block.flat)

    def _commented(self) -> Iterator[Block]:
        comments, self._comments = self._comments, []
        for comment in comments:
            if text := self._file.comment(comment):
                yield Block(text=text, flat=text)

    def _table(self, element: Element) -> Iterator[Block]:
        yield from self._carried_over()
        self._columns.clear()
        properties = element.find("w_tblPr")
        colours = self._file.colours
        shade = None if properties is None else properties.find("w_shd")
        background = colours.behind(shade, self._place.background)
        found = [
            row
            for row in _children(element, "w_tr")
            if (about := row.find("w_trPr")) is None or about.find("w_del") is None
        ]
        style = self._file.styles.table(value_of(properties, "w_tblStyle"))
        table = StyledTable(style, properties, len(found))
        rows = [self._row(row, number, table, background) for number, row in enumerate(found)]
        blocks, page_starts = table_blocks(rows)
        yield from blocks
        self._file.state.add_page_starts(page_starts)

    def _row(
        self, row: Element, number: int, table: StyledTable, background: Colour | None
    ) -> TableRow:
        about = row.find("w_trPr")
        height = None if about is None else about.find("w_trHeight")
        is_flat = _is_flat(height, "w_val", "w_hRule")
        skipped = column = _span(value_of(about, "w_gridBefore"), 0)
        cells: list[TableCell] = []
        found = list(_children(row, "w_tc"))
        for place, cell in enumerate(found):
            looks = table.cell(number, column, is_last=place == len(found) - 1)
            cells.append(self._cell(cell, looks, background, is_flat=is_flat))
            column += cells[-1].span
        return TableRow(cells=cells, skipped=skipped, is_header=is_set(about, "w_tblHeader"))

    def _cell(
        self, cell: Element, looks: CellFormat | None, background: Colour | None, *, is_flat: bool
    ) -> TableCell:
        about = cell.find("w_tcPr")
        merged, is_tall = "", False
        if about is not None:
            vertical = about.find("w_vMerge")
            is_tall = vertical is not None
            if _is_continued(vertical):
                merged = "above"
            elif _is_continued(about.find("w_hMerge")):
                merged = "left"
        shade = None if about is None else about.find("w_shd")
        if shade is not None or looks is not None:
            shade = looks.shading if shade is None and looks is not None else shade
            background = self._file.colours.behind(shade, background)
        else:
            background = None
        place = self._place._replace(
            kind="cell",
            background=background,
            table=NO_PROPERTIES if looks is None else looks.text,
            is_unseen=self._place.is_unseen or (is_flat and not is_tall),
        )
        blocks = self._nested(cell, place)
        return TableCell(lines=blocks, span=_span(value_of(about, "w_gridSpan"), 1), merged=merged)


_WRAPPERS = ("w_sdt", "w_sdtContent", "w_customXml", "w_ins", "w_moveTo")

_BLANKS = f" \t\r\n\v\xa0{PAGE_START}"


def _heading(runs: list[Run], level: int, label: str, page_starts: int) -> Block:
    start = f"{label} " if label else ""
    marks = PAGE_START * page_starts + "#" * min(level, 6)
    plain = [(text, style._replace(link="", bold=False, italic=False)) for text, style in runs]
    text = one_line(render_runs(plain, can_start_block=False))
    return Block(text=f"{marks} {start}{text}", flat=start + _plain(runs), level=level)


def _plain(runs: list[Run]) -> str:
    """Return runs on one line, without marks of pages and Markdown."""
    plain = [(text, RunStyle(script=style.script, verbatim=True)) for text, style in runs]
    return one_line(render_runs(plain, can_start_block=False))


def _children(parent: Element, name: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, also those in content controls."""
    for child in parent:
        if child.tag == name:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _children(child, name)


def _is_joined(properties: Element | None) -> bool:
    """Return whether a paragraph continues in the next: a drop cap, or a deleted mark."""
    if properties is None:
        return False
    frame = properties.find("w_framePr")
    if frame is not None and frame.get("w_dropCap") in {"drop", "margin"}:
        return True
    mark = properties.find("w_rPr")
    return mark is not None and any(mark.find(it) is not None for it in ("w_del", "w_moveFrom"))


def _is_flat(element: Element | None, size: str, rule: str) -> bool:
    """Return whether a row or line has an exact height in which nothing can be seen."""
    value = "" if element is None or element.get(rule) != "exact" else element.get(size, "")
    return value.isdecimal() and int(value[:9]) <= _SMALLEST_HEIGHT


def _is_continued(merge: Element | None) -> bool:
    return merge is not None and merge.get("w_val", "continue") == "continue"


def _span(text: str, default: int) -> int:
    return min(int(text), _MAX_SPAN) if text.isdecimal() and len(text) < 10 else default
