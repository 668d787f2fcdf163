"""Walks over the tree of a web page once, and writes its text as Markdown."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from mcp_tools_proxy.documents.importers.base import hidden_letters, one_line
from mcp_tools_proxy.documents.importers.css_values import length_px
from mcp_tools_proxy.documents.importers.docx_numbering import format_number, letters_of
from mcp_tools_proxy.documents.importers.html_drawings import (
    SHAPES,
    covers_page,
    element_appearance,
    is_alternative,
)
from mcp_tools_proxy.documents.importers.html_math import MathReader
from mcp_tools_proxy.documents.importers.html_notes import (
    is_note_mark,
    listed_notes,
    names_note_mark,
    text_after,
)
from mcp_tools_proxy.documents.importers.html_sheet import StyleSheet
from mcp_tools_proxy.documents.importers.html_styles import (
    HIDDEN_ELEMENTS,
    NOT_TEXT,
    Appearance,
    Drawing,
    is_block,
    is_closed_box,
    is_struck,
    page_appearance,
    script_tag,
)
from mcp_tools_proxy.documents.importers.html_tables import is_layout, read_table
from mcp_tools_proxy.documents.importers.markdown_writer import (
    LINE_BREAK,
    PLAIN,
    BlockWriter,
    ItemGroup,
    Run,
    RunStyle,
    render_runs,
)
from mcp_tools_proxy.documents.importers.pipe_table import table_pages
from mcp_tools_proxy.documents.importers.superscripts import may_be_note

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_TABLE_DEPTH = 8
"""Tables within cells of tables; deeper ones are read as text."""

MAX_CELLS = 2_000_000
"""Cells of a table up to which short rows get empty cells."""

_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "details"),
        *("dd", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "header", "hgroup", "html", "legend", "li", "listing", "main", "menu", "nav"),
        *("ol", "optgroup", "p", "search", "section", "summary", "table", "tbody", "td", "tfoot"),
        *("th", "thead", "tr", "ul", "xmp"),
    }
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BOLD = frozenset({"b", "strong"})
_ITALIC = frozenset({"i", "em"})
_STRUCK = frozenset({"s", "del", "strike"})
_CODE = frozenset({"code", "samp", "tt"})
_SPACED = frozenset({"button", "label", "output", "meter", "progress"})

_TAG = re.compile(r"<[^<>]*>")
_FORMULA = re.compile(r"math|tex\b|formula|emoji|[\\^=]", re.IGNORECASE)
"""In the class or description of a picture that is a part of a sentence."""

_PERMALINK = re.compile(r"[¶#§🔗\s]*")
_UNREAD_INPUTS = frozenset({"hidden", "password", "file"})
_CHOSEN = frozenset({"color", "date", "datetime-local", "month", "number", "range", "time", "week"})
_CHOICE = re.compile(r"#?[\dA-Fa-fTWeZ:.+-]{1,30}")
"""Their values; browsers show no others."""

_TARGET = re.compile(r"\s*(?!javascript:|data:|vbscript:|blob:|about:|#)\S", re.IGNORECASE)


class PageContext:
    """What all walks over one page share."""

    def __init__(self, tree: "LexborHTMLParser", *, with_link_targets: bool) -> None:
        self.styles = StyleSheet(tree)
        self.start = page_appearance(self.styles, tree)
        self.math = MathReader(tree, self.styles)
        self.with_link_targets = with_link_targets
        self.hidden_chars = 0
        self.opened_by_buttons = {
            it.attributes.get(name) or ""
            for name in ("popovertarget", "commandfor")
            for it in tree.css(f"[{name}]")
        }
        self.reused = {it.attributes.get("id") or "": it for it in tree.css("svg:has(use) [id]")}
        """Elements of drawings by their ids, until they are shown again."""
        self.listed_notes = listed_notes(tree)
        self.has_title = any(it.text().strip() for it in tree.css("h1"))


BULLET = "-"


class HtmlList:
    """The markers of an open list."""

    def __init__(self, node: "LexborNode | None", *, is_nested: bool) -> None:
        """Initialize; without ``node``, for an item outside a list."""
        self.group = ItemGroup(joins=is_nested)
        self._is_ordered = node is not None and node.tag == "ol"
        attributes = node.attributes if node is not None else {}
        self._kind = attributes.get("type") or "1"
        self._step = -1 if "reversed" in attributes else 1
        start = _whole(attributes.get("start"))
        items = sum(1 for child in node.iter() if child.tag == "li") if node is not None else 1
        self.is_marked_in_cells = self._is_ordered or items > 1
        if start is None:
            start = 1 if self._step == 1 else items
        self._number = start

    def marker(self, value: str | None) -> str:
        """Return the marker of the next item; ``value`` is the item's own number."""
        if not self._is_ordered:
            return BULLET
        own = _whole(value)
        number = self._number if own is None else own
        self._number = number + self._step
        return f"{_counter(number, self._kind)}."


def _whole(value: str | None) -> int | None:
    return int(value) if value and re.fullmatch(r"\s*[-+]?\d{1,9}\s*", value) else None


def _counter(number: int, kind: str) -> str:
    if kind in {"a", "A"} and number > 0:
        return letters_of(number, kind)
    if kind in {"i", "I"}:
        return format_number(number, "lowerRoman" if kind == "i" else "upperRoman")
    return str(number)


_Leave = Callable[[], None]
_Opener = Callable[["PageWalk", "LexborNode", Mapping[str, str | None]], _Leave | None]


def _nothing() -> None:
    """Do nothing: the end of an inline element."""


def _is_formula(attributes: Mapping[str, str | None]) -> bool:
    names = " ".join(attributes.get(name) or "" for name in ("class", "alt"))
    return _FORMULA.search(names) is not None


def _is_permalink(node: "LexborNode", attributes: Mapping[str, str | None]) -> bool:
    """Return whether a link is the sign beside a heading, which shows under the mouse only."""
    target = attributes.get("href") or ""
    return target.startswith("#") and _PERMALINK.fullmatch(node.text()) is not None


class PageWalk:
    """One walk over an element: a page, or a cell of a table (``depth`` tables deep)."""

    def __init__(
        self,
        page: PageContext,
        *,
        depth: int = 0,
        inherited: Appearance | None = None,
        style: RunStyle = PLAIN,
    ) -> None:
        self.page = page
        self._writer = BlockWriter()
        self._runs: list[Run] = []
        self._pictures: list[Run] = []
        """Descriptions of the pictures in a heading."""
        self._style = style
        self._appearance = inherited or page.start
        self._depth = depth
        self._lists: list[HtmlList] = []
        self._heading = 0
        self._code: list[str] | None = None
        """Text of an open ``pre``."""
        self._is_covered = False
        """Whether a shape of the open drawing can be behind its text."""

    def text(self) -> str:
        """Return the Markdown."""
        return self._writer.text()

    def read(self, root: "LexborNode") -> None:
        """Read the content of an element; no recursion, as elements can be nested 100,000 deep."""
        todo: list[LexborNode | _Leave] = [self._flush]
        if root.first_child is not None:
            todo.append(root.first_child)
        while todo:
            item = todo.pop()
            if callable(item):
                item()
                continue
            if (following := item.next) is not None:
                todo.append(following)
            if item.is_text_node:
                self._add(item.text_content or "")
            elif item.is_element_node and (leave := self._enter(item)) is not None:
                todo.append(leave)
                if item.first_child is not None:
                    todo.append(item.first_child)

    def _add(self, text: str) -> None:
        if self._appearance.is_hidden:
            self.page.hidden_chars += hidden_letters([text])
        elif self._code is not None:
            self._code.append(text)
        else:
            self._runs.append((text, self._style))

    def _break_block(self) -> None:
        """End the current block, or a line of it where blocks cannot be nested."""
        if self._code is not None:
            if self._code and not self._code[-1].endswith("\n"):
                self._code.append("\n")
        elif self._heading:
            self._runs.append((" ", self._style))
        else:
            self._flush()

    def _flush(self) -> None:
        runs, self._runs = self._runs, []
        if runs and (text := render_runs(runs)):
            self._writer.write(text.split("\n"))

    def _enter(self, node: "LexborNode") -> _Leave | None:
        """Start an element; return what ends it, or None if its content is not read."""
        tag = node.tag or ""
        if tag in HIDDEN_ELEMENTS:
            self._count(node, tag)
            return None
        before = self._appearance
        attributes = node.attributes
        declared, seen = self._styles(node, before)
        if (math := self.page.math.read(node, tag, seen)) is not None:
            if seen.is_hidden:
                self.page.hidden_chars += hidden_letters([node.text()])
            elif math:
                self._runs.append((f"${math}$", self._style._replace(verbatim=True)))
            return None
        if tag in NOT_TEXT or (before.drawing is not Drawing.NONE and is_alternative(node)):
            return None
        self._appearance = seen
        style = self._style
        is_struck_here = style.struck or tag in _STRUCK or is_struck(declared)
        self._style = style._replace(struck=is_struck_here)
        leave = self._open(node, tag, attributes, declared)
        if leave is None:
            self._style, self._appearance = style, before
            return None
        inner = leave

        def restore() -> None:
            inner()
            self._style = style
            self._appearance = before

        return restore

    def _styles(
        self, node: "LexborNode", around: Appearance
    ) -> tuple[Mapping[str, str], Appearance]:
        """Return the declarations of an element, and the appearance of its text."""
        attributes = node.attributes
        tag = node.tag or ""
        declared = self.page.styles.declarations(node, attributes.get("style"))
        seen = element_appearance(around, tag, attributes, declared)
        buttons = self.page.opened_by_buttons
        if is_closed_box(tag, attributes, declared) and attributes.get("id") not in buttons:
            seen = seen._replace(removed=True)
        return declared, seen

    def _count(self, node: "LexborNode", tag: str) -> None:
        """Count the letters of content that browsers do not show."""
        if tag == "template":
            texts = [fragment.text() for fragment in node.template_fragments()]
        else:
            texts = [_TAG.sub(" ", node.text())]  # not parsed in noscript, as with scripts
        self.page.hidden_chars += hidden_letters(texts)

    def _open(
        self,
        node: "LexborNode",
        tag: str,
        attributes: Mapping[str, str | None],
        declared: Mapping[str, str],
    ) -> _Leave | None:
        if tag in {"br", "hr"}:
            self._open_break(tag)
            return None
        if tag == "a" and self._heading and _is_permalink(node, attributes):
            return None
        if tag == "table" and self._is_data(node):
            self._read_table(node)
            return None
        if (opener := self._OPENERS.get(tag)) is not None:
            return opener(self, node, attributes)
        if tag in _BLOCKS or is_block(declared):
            self._break_block()
            return self._break_block
        self._style = self._inline_style(tag, attributes, node)
        if (script := script_tag(declared)) and not self._style.script:
            self._style = self._style._replace(script=self._script(script, attributes, node))
        if tag in _SPACED:
            self._add(" ")
            return lambda: self._add(" ")
        return _nothing

    def _open_break(self, tag: str) -> None:
        if self._appearance.is_hidden:
            return
        if self._code is not None:
            self._code.append("\n")
        elif tag == "br":
            self._runs.append((" " if self._heading else LINE_BREAK, self._style))
        else:
            self._break_block()
            if not (self._heading or self._depth):
                self._writer.write(["---"])

    def _inline_style(
        self, tag: str, attributes: Mapping[str, str | None], node: "LexborNode"
    ) -> RunStyle:
        style = self._style
        if tag in _BOLD:
            return style._replace(bold=not self._heading)
        if tag in _ITALIC:
            return style._replace(italic=not self._heading)
        if tag in _CODE:
            return style._replace(code=True)
        if tag in {"sup", "sub"}:
            return style._replace(script=self._script(tag, attributes, node))
        if tag == "a":
            return self._link_style(attributes)
        return style

    def _script(self, tag: str, attributes: Mapping[str, str | None], node: "LexborNode") -> str:
        if self._style.script:
            if self._style.script != "note":
                self._add("^" if tag == "sup" else "_")
            return self._style.script
        if tag == "sub":
            return "_"
        places = [attributes]
        links = (node.parent, node.css_first("a"))
        places += [it.attributes for it in links if it is not None and it.tag == "a"]
        if any(map(is_note_mark, places)):
            return "note"
        before = self._runs[-1][0] if self._runs else ""
        is_listed = node.text() in self.page.listed_notes
        return "note" if is_listed and may_be_note(before, text_after(node)) else "^"

    def _link_style(self, attributes: Mapping[str, str | None]) -> RunStyle:
        style = self._style._replace(link="")
        if style.script == "note" or names_note_mark(attributes):
            return style._replace(script="note")
        target = (attributes.get("href") or "").strip()
        if self.page.with_link_targets and _TARGET.match(target):
            return style._replace(link=target)
        return style

    def _is_data(self, node: "LexborNode") -> bool:
        return (
            not self._appearance.is_hidden
            and self._code is None
            and self._depth < MAX_TABLE_DEPTH
            and not is_layout(node)
        )

    def _read_table(self, node: "LexborNode") -> None:
        self._break_block()
        table = read_table(node, self._cell)
        if table.caption:
            self._writer.write([table.caption])
        if table.rows and self._depth:
            rows = (", ".join(dict.fromkeys(filter(None, row))) for row in table.rows)
            self._writer.write(["; ".join(row for row in rows if row)])
        elif table.rows:
            width = max(map(len, table.rows))
            width = width if width * len(table.rows) <= MAX_CELLS else 0
            header, *body = ([*row, *[""] * (width - len(row))] for row in table.rows)
            for part in table_pages(header, body):
                self._writer.write(part.rstrip("\n").split("\n"))

    def _cell(self, node: "LexborNode", ancestors: "list[LexborNode]") -> str:
        """Return the text of a table cell on one line."""
        seen = self._appearance
        style = self._style._replace(bold=False)
        for ancestor in (*ancestors, node):
            declared, seen = self._styles(ancestor, seen)
            if is_struck(declared):
                style = style._replace(struck=True)
        walk = PageWalk(self.page, depth=self._depth + 1, inherited=seen, style=style)
        walk.read(node)
        return " ".join(walk.text().split())

    def _open_heading(self, node: "LexborNode", _: Mapping[str, str | None]) -> _Leave:
        self._break_block()
        if self._code is not None or self._heading or self._depth:
            return self._break_block
        self._heading = _HEADINGS[node.tag or ""]
        self._style = self._style._replace(bold=False, italic=False)

        def close() -> None:
            runs, self._runs = self._runs, []
            pictures, self._pictures = self._pictures, []
            text = render_runs(runs, can_start_block=False)
            if not text and not (self._heading == 1 and self.page.has_title):
                text, pictures = render_runs(pictures, can_start_block=False), []
            if text:
                self._writer.write([f"{'#' * self._heading} {' '.join(text.split())}"])
            self._heading = 0
            if described := render_runs(pictures):
                self._writer.write([" ".join(described.split())])

        return close

    def _open_list(self, node: "LexborNode", _: Mapping[str, str | None]) -> _Leave:
        self._break_block()
        self._lists.append(HtmlList(node, is_nested=bool(self._lists)))

        def close() -> None:
            self._break_block()
            self._lists.pop()

        return close

    def _open_item(self, _: "LexborNode", attributes: Mapping[str, str | None]) -> _Leave:
        self._break_block()
        items = self._lists[-1] if self._lists else HtmlList(None, is_nested=True)
        marker = items.marker(attributes.get("value"))
        if self._depth and items.is_marked_in_cells and not self._appearance.is_hidden:
            # a cell has no lists, but text may refer to its numbers, and bullets separate items
            self._runs.append((f"{marker} ", self._style._replace(verbatim=True)))
        return self._open_container(lambda: self._writer.open_item(marker, items.group))

    def _open_quote(self, _: "LexborNode", __: Mapping[str, str | None]) -> _Leave:
        self._break_block()
        return self._open_container(self._writer.open_quote)

    def _open_definition(self, _: "LexborNode", __: Mapping[str, str | None]) -> _Leave:
        self._break_block()
        group = ItemGroup(joins=True)
        return self._open_container(lambda: self._writer.open_item(":", group))

    def _open_container(self, opening: Callable[[], None]) -> _Leave:
        if self._heading or self._depth or self._code is not None:
            return self._break_block
        opening()

        def close() -> None:
            self._break_block()
            self._writer.close()

        return close

    def _open_code(self, node: "LexborNode", _: Mapping[str, str | None]) -> _Leave:
        self._break_block()
        if self._code is not None or self._heading or self._depth or self._appearance.is_hidden:
            return self._break_block
        self._code = []

        def close() -> None:
            text = "".join(self._code or ()).expandtabs(4).strip("\n")
            self._code = None
            if text.strip():
                longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
                fence = "`" * (longest + 1)
                self._writer.write([fence, *text.split("\n"), fence])

        return close

    def _open_quotation(self, _: "LexborNode", __: Mapping[str, str | None]) -> _Leave:
        self._add("“")
        return lambda: self._add("”")

    def _open_reading(self, _: "LexborNode", __: Mapping[str, str | None]) -> _Leave:
        self._add("(")
        return lambda: self._add(")")

    def _open_picture(self, _: "LexborNode", attributes: Mapping[str, str | None]) -> None:
        alternative = (attributes.get("alt") or "").strip()
        sizes = [length_px((attributes.get(name) or "").strip()) for name in ("width", "height")]
        if not alternative or any(size is not None and size <= 1 for size in sizes):
            return
        if not self._heading or not any(map(str.isalnum, alternative)) or _is_formula(attributes):
            self._add(f" {alternative} ")
            return
        runs, self._runs = self._runs, self._pictures  # such as badges beside a title
        self._add(f" {alternative} ")
        self._runs = runs

    def _open_input(self, _: "LexborNode", attributes: Mapping[str, str | None]) -> None:
        kind = (attributes.get("type") or "text").lower()
        value = attributes.get("value") or ""
        if kind in {"checkbox", "radio"}:
            self._add(" [x] " if "checked" in attributes else " [ ] ")
        elif kind == "image":
            self._add(f" {attributes.get('alt') or ''} ")
        elif kind not in _UNREAD_INPUTS and (kind not in _CHOSEN or _CHOICE.fullmatch(value)):
            self._add(f" {value} ")

    def _open_select(self, node: "LexborNode", _: Mapping[str, str | None]) -> None:
        options = [
            (one_line(it.text()), "selected" in it.attributes)
            for it in node.css("option")
            if not self._is_removed(it)
        ]
        names = [f"[x] {name}" if chosen else name for name, chosen in options if name]
        self._add(f" {', '.join(names)} ")

    def _is_removed(self, option: "LexborNode") -> bool:
        """Return whether an option is not in its list; its letters are counted."""
        _, seen = self._styles(option, self.page.start)
        if seen.removed:
            self.page.hidden_chars += hidden_letters([option.text()])
        return seen.removed

    def _open_drawing(self, _: "LexborNode", __: Mapping[str, str | None]) -> _Leave:
        is_covered, self._is_covered = self._is_covered, False
        self._add(" ")

        def close() -> None:
            self._is_covered = is_covered
            self._add(" ")

        return close

    def _open_shape(self, node: "LexborNode", _: Mapping[str, str | None]) -> _Leave:
        if self._appearance.drawing is not Drawing.NONE:
            self._is_covered |= covers_page(self._appearance, node.tag or "")
        return _nothing

    def _open_use(self, node: "LexborNode", attributes: Mapping[str, str | None]) -> None:
        """Read an element that a drawing shows again, where it is shown first."""
        self._is_covered |= covers_page(self._appearance, "use")
        target = attributes.get("href") or attributes.get("xlink:href") or ""
        found = self.page.reused.pop(target.strip().removeprefix("#"), None)
        if found is None or self._depth >= MAX_TABLE_DEPTH:
            return
        own = found.attributes
        declared = self.page.styles.declarations(found, own.get("style"))
        tag = "g" if found.tag == "symbol" else found.tag or ""
        seen = element_appearance(self._appearance, tag, own, declared)
        if found.tag == "text" and self._is_covered:
            seen = seen._replace(background=None)
        walk = PageWalk(self.page, depth=self._depth + 1, inherited=seen, style=self._style)
        walk.read(found)
        if text := " ".join(walk.text().split()):
            self._runs.append((f" {text} ", self._style))

    def _open_label(self, _: "LexborNode", __: Mapping[str, str | None]) -> _Leave:
        if self._is_covered:
            self._appearance = self._appearance._replace(background=None)
        self._add(" ")
        return lambda: self._add(" ")

    _OPENERS: ClassVar[Mapping[str, _Opener]] = {
        **dict.fromkeys(_HEADINGS, _open_heading),
        **dict.fromkeys(("ul", "ol", "menu", "dir"), _open_list),
        "li": _open_item,
        "dd": _open_definition,
        "blockquote": _open_quote,
        **dict.fromkeys(("pre", "listing", "xmp"), _open_code),
        "q": _open_quotation,
        "rt": _open_reading,
        "img": _open_picture,
        "input": _open_input,
        "select": _open_select,
        "svg": _open_drawing,
        **dict.fromkeys(SHAPES - {"use"}, _open_shape),
        "use": _open_use,
        "text": _open_label,
    }
