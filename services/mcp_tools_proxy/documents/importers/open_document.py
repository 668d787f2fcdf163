"""Imports OpenDocument texts (ODT) through HTML."""

import re
from collections.abc import Callable, Mapping
from html import escape
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import (
    FileFacts,
    ImportFailed,
    ImportOptions,
    language_tag,
    lost_equations,
    one_line,
)
from mcp_tools_proxy.documents.importers.html import html_to_markdown
from mcp_tools_proxy.documents.importers.html_styles import Appearance, appearance
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.documents.importers.open_numbering import OpenNumbering
from mcp_tools_proxy.documents.importers.open_styles import OpenStyles, css_of, is_hidden
from mcp_tools_proxy.documents.importers.running_titles import PAGE_NUMBER, running_title
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive
from mcp_tools_proxy.domain.document import Document

_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
ODF_PREFIXES = {
    **{f"{_OASIS}:{it}:1.0": it for it in ("office", "text", "table", "style", "meta", "form")},
    f"{_OASIS}:drawing:1.0": "draw",
    f"{_OASIS}:xsl-fo-compatible:1.0": "fo",
    f"{_OASIS}:svg-compatible:1.0": "svg",
    "http://www.w3.org/1999/xlink": "xlink",
    "http://purl.org/dc/elements/1.1/": "dc",
    "urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0": "field",
    "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext",
}
ODF_PARTS = ("*content.xml", "*styles.xml", "*meta.xml")
"""Others have document types in files of OpenOffice 3."""

_MAX_SPACES = 100
MAX_REPEATED = 1000
"""Equal rows or columns with text that are repeated; more are decoration."""

MAX_ODF_TOKENS = 3_000_000
_TITLE_STYLE = "Title"
_HEADING_STYLE = re.compile(r"Heading_20_([1-6])")
"""Paragraphs of web pages saved by LibreOffice have this style, and are no headings otherwise."""

_PAGE_NUMBERS = ("text:page-number", "text:page-count")
_SKIPPED = {
    "text:tracked-changes",
    "text:sequence-decls",
    "text:variable-decls",
    "text:user-field-decls",
    *_PAGE_NUMBERS,
    "text:note-citation",
    "office:forms",
    "office:annotation-end",
    "table:covered-table-cell",
    "table:shapes",
    "draw:glue-point",
    "svg:title",
    "svg:desc",
}
"""Deletions, declarations, and elements that other methods read."""

_TAGS = {
    "text:p": "p",
    "text:list": "ul",
    "text:ruby": "ruby",
    "text:ruby-text": "rt",
    "table:table": "table",
    "table:table-row": "tr",
    "draw:text-box": "div",
}
_SHAPES = tuple(
    f"draw:{it}" for it in ("custom-shape", "rect", "ellipse", "circle", "polygon", "path")
)
_SPANS = (("colspan", "table:number-columns-spanned"), ("rowspan", "table:number-rows-spanned"))
_FORMULA = "application/vnd.oasis.opendocument.formula"
_ENTRY = re.compile(r"file-entry\b([^<>]*)>")
_ENTRY_NAME = re.compile(r"""full-path=["']([^"']*)""")
_MARKUP = re.compile(r"<annotation.*?</annotation>|<[^<>]*>", re.DOTALL)
_MATH_PREFIX = re.compile(r"(</?)[\w.-]+:")
_DECLARATION = re.compile(r"\A\s*<\?xml[^<>]*>")


class OpenDocumentText:
    """Writes the text of an ODT file as HTML.

    ``hidden_chars`` counts the letters that were left out of it.
    """

    def __init__(self, archive: XmlArchive, options: ImportOptions) -> None:
        self.title = ""
        self._archive = archive
        self._options = options
        self.hidden_chars = 0
        self._styles = OpenStyles()
        self._notes: list[str] = []
        self._list_types: list[str | None] = []
        """The type in HTML of each open list; None for one with headings, no list for readers."""
        self._numbers = OpenNumbering()
        self._label = ""
        """The label that the next paragraph or heading starts with."""
        self._special: Mapping[str, Callable[[Element], str]] = {
            "text:p": self._paragraph,
            "text:h": self._heading,
            "text:span": self._span,
            "text:list": self._list,
            "text:list-item": self._item,
            "text:list-header": self._item,
            "text:s": self._spaces,
            "text:tab": lambda _: " ",
            "text:line-break": lambda _: "<br>",
            "text:a": self._link,
            "text:note": self._note,
            "text:hidden-text": self._hidden,
            "text:section": self._section,
            "office:annotation": self._comment,
            "table:table-cell": self._cell,
            "table:table-header-rows": self._header_rows,
            "draw:frame": self._frame,
            **dict.fromkeys(_SHAPES, self._shape),
            "field:fieldmark": self._form_field,
            "draw:control": self._control,
        }
        self.lost_formulas = 0
        self._formula_parts = _formula_parts(archive)
        roots = [archive.parse(part, ODF_PREFIXES) for part in ("styles.xml", "content.xml")]
        for root in roots:
            if root is not None:
                self._read_styles(root)
        self._page_styles, self._content = roots
        self._controls = {
            it.get("form:id", ""): it
            for forms in ([] if self._content is None else self._content.iter("office:forms"))
            for it in forms.iter()
        }

    def html(self) -> str:
        """Return the text, then its notes; headers and footers are marked. Raises ImportFailed."""
        body = None if self._content is None else next(self._content.iter("office:text"), None)
        if body is None:
            raise ImportFailed("does not contain a text: save it again as .odt")
        text = self._inner(body)
        notes = "".join(self._notes)
        page = css_of(self._styles.page)
        text = f'<div style="{escape(page)}">{text}</div>'
        return f"{self._margin('header')}{text}{notes}{self._margin('footer')}"

    def _read_styles(self, root: Element) -> None:
        self._styles.add(root)
        self._numbers.add_styles(root)

    def _margin(self, place: str) -> str:
        """Return the headers or footers of all page styles, each once."""
        if self._page_styles is None:
            return ""
        margins = (
            it
            for suffix in ("", "-first", "-left")
            for it in self._page_styles.iter(f"style:{place}{suffix}")
            if it.get("style:display") != "false"
        )
        texts: dict[str, None] = {}
        for it in margins:
            self._blank_hidden(it, appearance(Appearance(), self._styles.margin, {}))
            texts[running_title(_margin_lines(it))] = None
        return "".join(f"<p>[{place.capitalize()}: {escape(it)}]</p>" for it in texts if it)

    def _inner(self, element: Element) -> str:
        parts = [escape(element.text or "")]
        for child in element:
            parts.append(self._html(child))
            parts.append(escape(child.tail or ""))
        return "".join(parts)

    def _html(self, element: Element) -> str:
        tag = element.tag
        if tag in _SKIPPED:
            return ""
        if (special := self._special.get(tag)) is not None:
            return special(element)
        inner = self._inner(element)
        name = _TAGS.get(tag)
        return inner if name is None else f"<{name}{self._css(element)}>{inner}</{name}>"

    def _css(self, element: Element) -> str:
        css = css_of(self._styles.look(element))
        hidden = " hidden" if is_hidden(element) else ""
        return f'{hidden} style="{escape(css)}"' if css else hidden

    def _blank_hidden(self, element: Element, outer: Appearance | None = None) -> None:
        """Remove the hidden text of an element that becomes plain text."""
        if outer is None:
            outer = appearance(Appearance(), self._styles.page, {})
        attributes = {"hidden": ""} if is_hidden(element) else {}
        seen = appearance(outer, self._styles.look(element), attributes)
        for child in element:
            self._blank_hidden(child, seen)
            if seen.is_hidden:
                self.hidden_chars += len((child.tail or "").strip())
                child.tail = ""
        if seen.is_hidden:
            self.hidden_chars += len((element.text or "").strip())
            element.text = ""

    def _paragraph(self, element: Element) -> str:
        names = list(self._styles.names(element))
        if not self.title and _TITLE_STYLE in names:
            self._blank_hidden(element)
            self.title = one_line(plain_text(element))
        levels = (_HEADING_STYLE.fullmatch(name) for name in names)
        tag = next((f"h{level[1]}" for level in levels if level), "p")
        return f"<{tag}{self._css(element)}>{self._taken_label()}{self._inner(element)}</{tag}>"

    def _heading(self, element: Element) -> str:
        level = element.get("text:outline-level", "1")
        name = f"h{min(int(level), 6) if level.isdigit() and level != '0' else 1}"
        if (
            not self._list_types
            and level.isdigit()
            and element.get("text:is-list-header") != "true"
            and self._styles.list_name(element) != ""
        ):
            self._label = self._numbers.next_heading(element, int(level))
        return f"<{name}{self._css(element)}>{self._taken_label()}{self._inner(element)}</{name}>"

    def _taken_label(self) -> str:
        label, self._label = self._label, ""
        return f"{escape(label)} " if label else ""

    def _span(self, element: Element) -> str:
        inner = self._inner(element)
        positions = (it.get("style:text-position", "") for it in self._styles.properties(element))
        place = next(filter(None, positions), "").split(" ")[0]
        if place == "super" or (place.rstrip("%").isdigit() and place != "0%"):
            inner = f"<sup>{inner}</sup>"
        elif place == "sub" or place.startswith("-"):
            inner = f"<sub>{inner}</sub>"
        css = self._css(element)
        return f"<span{css}>{inner}</span>" if css else inner

    def _list(self, element: Element) -> str:
        self._numbers.open_list(element)
        has_headings = next(element.iter("text:h"), None) is not None
        self._list_types.append(None if has_headings else self._numbers.html_type)
        inner = self._inner(element)
        self._numbers.close_list()
        kind = self._list_types.pop()
        if kind is None:
            return inner
        return f'<ol type="{kind}">{inner}</ol>' if kind else f"<ul>{inner}</ul>"

    def _item(self, element: Element) -> str:
        """Return an item; a label that HTML does not have becomes the start of its text."""
        label = self._numbers.next_label(element)
        kind = "" if element.get("text:style-override") else self._list_types[-1]
        if kind is None or not (label.is_bullet or (kind and label.text)):
            self._label = label.text
            inner = self._inner(element)
            self._label = ""
            return inner
        return f'<li value="{label.value}">{self._inner(element)}</li>'

    def _spaces(self, element: Element) -> str:
        count = element.get("text:c", "1")
        return " " * min(int(count) if count.isdigit() else 1, _MAX_SPACES)

    def _link(self, element: Element) -> str:
        target = element.get("xlink:href", "")
        inner = self._inner(element)
        is_outside = re.match(r"[a-zA-Z][\w+.-]*:", target)
        return f'<a href="{escape(target)}">{inner}</a>' if is_outside else inner

    def _note(self, element: Element) -> str:
        mark = plain_text(next(element.iter("text:note-citation"), element)).strip()
        body = next(element.iter("text:note-body"), None)
        if body is not None:
            self._blank_hidden(body)
            self._notes.append(
                f"<p>[{escape(mark)}] {escape(' '.join(plain_text(body).split()))}</p>"
            )
        return f"<sup>[{escape(mark)}]</sup>"

    def _hidden(self, element: Element) -> str:
        return f"<span hidden>{escape(element.get('text:string-value', ''))}</span>"

    def _section(self, element: Element) -> str:
        return f"<div{self._css(element)}>{self._inner(element)}</div>"

    def _comment(self, element: Element) -> str:
        if not self._options.with_notes:
            return ""
        author, text = comment_of(element)
        mark = f"Comment by {author}" if author else "Comment"
        return f" [{escape(mark)}: {escape(text)}] " if text else ""

    def _cell(self, element: Element) -> str:
        spans = "".join(
            f' {name}="{escape(value)}"'
            for name, attribute in _SPANS
            if (value := element.get(attribute))
        )
        cell = f"<td{spans}{self._css(element)}>{self._inner(element)}</td>"
        is_empty = not plain_text(element).strip()
        return cell * repeat_count(element, "columns", 1 if is_empty else MAX_REPEATED)

    def _header_rows(self, element: Element) -> str:
        return self._inner(element).replace("<td", "<th").replace("</td>", "</th>")

    def _frame(self, element: Element) -> str:
        """Return a text box, a formula, or the description of a picture."""
        for child in element:
            if child.tag == "draw:text-box":
                return f'<div style="background-image: url(x)">{self._inner(child)}</div>'
            if child.tag == "draw:object" and (math := self._formula(child)):
                return math
        found = (it.text or "" for it in element if it.tag in ("svg:desc", "svg:title"))
        return escape(next(filter(None, found), ""))

    def _shape(self, element: Element) -> str:
        """Return the text of a shape, which can have a fill behind it."""
        inner = self._inner(element)
        return f'<div style="background-image: url(x)">{inner}</div>' if inner.strip() else ""

    def _formula(self, element: Element) -> str:
        """Return an embedded formula as MathML, or "" for another object."""
        name = element.get("xlink:href", "").removeprefix("./").rstrip("/")
        content = self._archive.read(f"{name}/content.xml").decode("utf-8", "replace")
        math = _MATH_PREFIX.sub(r"\1", _DECLARATION.sub("", content)).strip()
        if math.startswith("<math") and _MARKUP.sub("", math).strip():
            return math
        self.lost_formulas += name in self._formula_parts
        return ""

    def _form_field(self, element: Element) -> str:
        """Return the value of a check box or a list; text fields have theirs in the text."""
        kind = element.get("field:type", "").rpartition(".")[2]
        found = [
            (it.get("field:name", "").rpartition("_")[2], it.get("field:value", ""))
            for it in element.iter("field:param")
        ]
        values = dict(found)
        if kind == "FORMCHECKBOX":
            return "[x]" if values.get("Checked") == "true" else "[ ]"
        if kind == "FORMDROPDOWN":
            entries = [value for name, value in found if name == "ListEntry"]
            chosen = values.get("Selected", "")
            is_known = chosen.isdecimal() and int(chosen[:9]) < len(entries)
            return escape(entries[int(chosen)]) if is_known else ""
        return self._inner(element)

    def _control(self, element: Element) -> str:
        """Return the label and value of a control of a form."""
        control = self._controls.get(element.get("draw:control", ""))
        if control is None:
            return ""
        label = control.get("form:label", "")
        kind = control.tag.removeprefix("form:")
        if kind == "checkbox":
            is_chosen = _current(control, "state") == "checked"
            label = f"{'[x]' if is_chosen else '[ ]'} {label}"
        elif kind == "radio":
            label = f"{'[x]' if _current(control, 'selected') == 'true' else '[ ]'} {label}"
        elif kind == "listbox":
            chosen = (it for it in control if _current(it, "selected") == "true")
            label = ", ".join(it.get("form:label", "") for it in chosen)
        elif kind in ("text", "textarea", "combobox", "date", "number", "formatted-text"):
            label = _current(control, "value")
        elif kind != "fixed-text":
            return ""
        return f" {escape(label.strip())} "


def _current(element: Element, name: str) -> str:
    """Return the value of a control, which is its first one if it was never changed."""
    return element.get(f"form:current-{name}") or element.get(f"form:{name}") or ""


def _formula_parts(archive: XmlArchive) -> set[str]:
    """Return the names of the embedded formulas."""
    entries = _ENTRY.findall(archive.read("META-INF/manifest.xml").decode("utf-8", "replace"))
    return {
        name[1].rstrip("/")
        for entry in entries
        if _FORMULA in entry and (name := _ENTRY_NAME.search(entry))
    }


def import_odt(data: bytes, options: ImportOptions) -> Document:
    """Build a document from an OpenDocument text; headings become sections. Raises ImportFailed."""
    archive = XmlArchive(data, ".odt", xml=ODF_PARTS, max_tokens=MAX_ODF_TOKENS)
    text = OpenDocumentText(archive, options)
    converted = html_to_markdown(text.html(), with_link_targets=options.with_link_targets)
    facts = _facts(archive)
    return build_from_markdown(
        converted.markdown,
        options,
        facts=FileFacts(title=text.title or facts.title, language=facts.language),
        warnings=lost_equations(text.lost_formulas),
        hidden_chars=converted.hidden_chars + text.hidden_chars,
    )


def _facts(archive: XmlArchive) -> FileFacts:
    meta = archive.parse("meta.xml", ODF_PREFIXES)
    title, language = (
        "" if meta is None else one_line(next((plain_text(it) for it in meta.iter(tag)), ""))
        for tag in ("dc:title", "dc:language")
    )
    return FileFacts(title=own_title(title), language=language_tag(language))


def _margin_lines(margin: Element) -> list[str]:
    """Return the lines of a header or footer, with marks for page numbers."""
    for element in margin.iter():
        if element.tag in _PAGE_NUMBERS:
            element.tag, element.text = "text:span", PAGE_NUMBER
    return [" ".join(line.split()) for line in plain_text(margin).split("\n")]


def comment_of(element: Element) -> tuple[str, str]:
    """Return the author and the text of a comment."""
    author = one_line(next((plain_text(it) for it in element.iter("dc:creator")), ""))
    paragraphs = (plain_text(it) for it in element.iter("text:p"))
    return author, " ".join(" ".join(paragraphs).split())


def plain_text(element: Element) -> str:
    """Return the text of an element with a space for tabs, line breaks and paragraph ends."""
    parts: list[str] = []
    _add_plain(element, parts)
    return "".join(parts)


def _add_plain(element: Element, parts: list[str]) -> None:
    parts.append(element.text or "")
    if element.tag in ("text:s", "text:tab", "text:line-break"):
        parts.append(" ")
    for child in element:
        if child.tag not in _SKIPPED and child.tag != "office:annotation":
            _add_plain(child, parts)
        parts.append(child.tail or "")
    if element.tag in ("text:p", "text:h"):
        parts.append("\n")


def repeat_count(element: Element, what: str, most: int) -> int:
    """Return how often a cell, row or column occurs, at most ``most`` times."""
    value = element.get(f"table:number-{what}-repeated", "1")
    return min(int(value), most) if value.isdigit() and len(value) < 10 else 1
