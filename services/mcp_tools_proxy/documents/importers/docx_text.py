"""The text of a paragraph of a Word file: runs, fields, links, equations, notes and controls."""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import field
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.css_colours import WHITE, Colour
from mcp_tools_proxy.documents.importers.docx_blocks import PAGE_START
from mcp_tools_proxy.documents.importers.docx_colours import Properties
from mcp_tools_proxy.documents.importers.docx_equations import EquationWriter
from mcp_tools_proxy.documents.importers.docx_package import PartReference
from mcp_tools_proxy.documents.importers.docx_shapes import ShapePart, WordShapes
from mcp_tools_proxy.documents.importers.docx_styles import (
    Styles,
    TextFormat,
    is_on,
    is_set,
    value_of,
)
from mcp_tools_proxy.documents.importers.docx_table_styles import NO_PROPERTIES
from mcp_tools_proxy.documents.importers.markdown_writer import (
    LINE_BREAK,
    PLAIN,
    Run,
    RunStyle,
)
from mcp_tools_proxy.documents.importers.running_titles import PAGE_FIELDS, PAGE_NUMBER
from mcp_tools_proxy.documents.importers.superscripts import may_be_note
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MAX_OPEN_FIELDS = 50
"""Limit for fields within each other, also for those without an end."""

_ADDRESS = re.compile(r"(?:https?|mailto|ftp|tel):", re.IGNORECASE)
_FIELD_ADDRESS = re.compile(r'\s*HYPERLINK\s+"([^"]+)"', re.IGNORECASE)
_EQUATION_SWITCHES = re.compile(r"\\\w+")
_WITHOUT_RESULT = frozenset({"ASK", "PRIVATE", "RD", "SET", "TA", "TC", "XE"})
"""Fields that show nothing, whatever the file has as their result."""

_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟ"
    "ΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
)
_SYMBOL_UPPER = (
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉"
    "∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
)
_FONTS = {
    "symbol": {
        **{0x20 + at: c for at, c in enumerate(_SYMBOL)},
        **{0xA0 + at: c for at, c in enumerate(_SYMBOL_UPPER)},
    },
    "wingdings": dict(
        zip(
            bytes.fromhex(
                "20 28 2a 46 4a 4c 52 6c 6d 6e 6f 70 71 72 73 74 75 76 77 9f a1 a7 a8 ab b1 d8 df"
                "e0 e1 e2 e8 ef f0 f1 f2 fb fc fd fe"
            ),
            " ☎✉☞☺☹☼●❍■□❐❑❒⬧⧫◆❖⬥•○▪☐★⌖➢←→↑↓➔⇦⇨⇧⇩✗✓☒☑",
            strict=True,
        )
    ),
    "wingdings 2": dict(
        zip(bytes.fromhex("4f 50 51 52 53 54 55 56 97 98 a2 a3"), "✗✓☒☑☒☒✗⊗●•■☐", strict=True)
    ),
}
"""Characters of fonts that have code points of their own."""

_PRIVATE = range(0xF000, 0xF100)
_PRIVATE_USE = re.compile("[\uf000-\uf0ff]")
"""Codes of these fonts as office programs write them: 0xF000 and more."""


_CONTEXT = 20

_NOTE_NUMBER = re.compile(r"\d{1,3}")


def listed_notes(root: Element, styles: Styles) -> Set[str]:
    """Return the raised numbers that paragraphs begin with: notes that an author wrote as text."""
    found: set[str] = set()
    for paragraph in root.iter("w_p"):
        first = next((it for it in paragraph.iter("w_r") if it.find("w_t") is not None), None)
        number = "" if first is None else "".join(it.text or "" for it in first.iterfind("w_t"))
        if first is None or not _NOTE_NUMBER.fullmatch(number.strip()):
            continue
        style = value_of(paragraph, "w_pPr/w_pStyle") or styles.default_paragraph
        is_raised = styles.text_format(first.find("w_rPr"), style, None).script in {"^", "note"}
        text = "".join(it.text or "" for it in paragraph.iter("w_t")).strip()
        if is_raised and text[len(number.strip()) :].lstrip()[:1].isalpha():
            found.add(number.strip())
    return found


class WordState:
    """What the paragraphs of a file share: styles, counters, and where pages start."""

    def __init__(self, styles: Styles, shapes: WordShapes, *, with_link_targets: bool) -> None:
        self.styles = styles
        self.shapes = shapes
        self.with_link_targets = with_link_targets
        self.equations = EquationWriter()
        self.hidden_chars = 0
        self.lost_pictures = 0
        self.listed_notes: Set[str] = frozenset()
        self.has_word_pages = False
        self.has_picture_behind = False
        self._notes: dict[tuple[str, str], str] = {}
        self._page_starts = 0
        self._is_after_break = False

    def note_label(self, kind: str, note_id: str) -> str:
        """Return the number of a footnote or endnote, counted in the order of the references."""
        return self._notes.setdefault((kind, note_id), str(len(self._notes) + 1))

    def break_page(self) -> None:
        """Start a page that the author wanted."""
        self._page_starts += 1
        self.has_picture_behind = False
        self._is_after_break = True

    def note_drawn_page(self) -> None:
        """Start a page where Word drew one, unless the author's break is just before."""
        self.has_word_pages = True
        self.has_picture_behind = False
        if self._is_after_break:
            self._is_after_break = False
        else:
            self._page_starts += 1

    def add_page_starts(self, number: int) -> None:
        """Start pages before the next text."""
        self._page_starts += number

    def count_hidden(self, element: Element) -> None:
        """Count the text of a hidden element."""
        self.hidden_chars += sum(len(it.strip()) for it in _texts(element))

    def take_page_starts(self) -> str:
        """Return the marks of the pages that start before a text."""
        self._is_after_break = False
        marks, self._page_starts = PAGE_START * self._page_starts, 0
        return marks


@dataclass(slots=True)
class _OpenField:
    """A complex field; its code comes before its result."""

    code: str = ""
    in_result: bool = False
    is_replaced: bool = False
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class NoteReference:
    """A reference to a note; ``kind`` is ``footnote`` or ``endnote``."""

    kind: str
    note_id: str
    label: str


@dataclass(slots=True)
class Anchored:
    """The text boxes, notes and ids of comments of a paragraph."""

    boxes: list[ShapePart] = field(default_factory=list)
    notes: list[NoteReference] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


StoryKind = Literal["body", "cell", "box", "note", "running title"]


class StoryPlace(NamedTuple):
    """Where a part of the text is.

    ``background`` is the colour behind it, or None if it is unknown; ``table`` are the properties
    of text in its cell. Paragraphs are ``is_unseen`` in a row without height, and ``is_in_front``
    of pictures in a text box.
    """

    kind: StoryKind
    background: Colour | None = WHITE
    table: Properties = NO_PROPERTIES
    is_unseen: bool = False
    is_in_front: bool = False


class ParagraphText:
    """Reads paragraphs of one story, such as the main text or a cell."""

    def __init__(
        self,
        state: WordState,
        links: Mapping[str, PartReference],
        place: StoryPlace,
    ) -> None:
        self._state = state
        self._links = links
        self._place = place
        has_pages = self._has_pages = place.kind in ("body", "cell")
        self._has_page_numbers = place.kind == "running title"
        self._fields: list[_OpenField] = []
        self._runs: list[Run] = []
        self._anchored = Anchored()
        self._style = ""
        self._background: Colour | None = None
        self._is_unseen = False
        self._link = ""
        self._format: TextFormat | None = None
        inside = self._inside
        self._inline: Mapping[str, Callable[[Element], None]] = {
            "w_r": self._run,
            "w_hyperlink": self._hyperlink,
            **dict.fromkeys(("w_ins", "w_moveTo", "w_smartTag", "w_customXml"), inside),
            **dict.fromkeys(("w_dir", "w_bdo", "w_sdtContent"), inside),
            "w_sdt": self._control,
            "w_fldSimple": self._simple_field,
            "m_oMath": lambda element: self._equation(element, "$"),
            "m_oMathPara": self._display,
        }
        self._in_run: Mapping[str, Callable[[Element], None]] = {
            "w_t": lambda element: self._add(element.text or ""),
            "w_tab": lambda _: self._add("\t"),
            "w_ptab": lambda _: self._add("\t"),
            "w_cr": lambda _: self._add(LINE_BREAK),
            "w_noBreakHyphen": lambda _: self._add("-"),
            "w_br": self._break,
            "w_sym": self._symbol,
            "w_pgNum": lambda _: self._add(PAGE_NUMBER if self._has_page_numbers else ""),
            "w_lastRenderedPageBreak": lambda _: state.note_drawn_page() if has_pages else None,
            "w_fldChar": self._field_mark,
            "w_instrText": self._field_code,
            "w_footnoteReference": lambda element: self._note(element, "footnote"),
            "w_endnoteReference": lambda element: self._note(element, "endnote"),
            "w_commentReference": lambda element: self._anchored.comments.append(
                element.get("w_id", "")
            ),
            "w_drawing": self._drawing,
            "w_pict": self._picture,
            "w_object": self._picture,
            "w_ruby": self._ruby,
        }

    def read(
        self, paragraph: Element, style: str, background: Colour | None, *, is_unseen: bool
    ) -> tuple[list[Run], Anchored]:
        """Return the text of a paragraph, which may be unseen, and the boxes anchored in it."""
        self._runs, self._anchored = [], Anchored()
        self._style, self._background, self._is_unseen = style, background, is_unseen
        self._inside(paragraph)
        if self._state.listed_notes:
            self._mark_notes()
        return self._runs, self._anchored

    def _mark_notes(self) -> None:
        """Mark raised numbers after numbers whose notes are paragraphs of the file."""
        before = ""
        for number, (text, style) in enumerate(self._runs):
            if style.script == "^" and text.strip() in self._state.listed_notes:
                after = "".join(it for it, _ in self._runs[number + 1 : number + 3])
                if may_be_note(before, after):
                    self._runs[number] = text, style._replace(script="note")
            before = (before + text)[-_CONTEXT:]

    def _inside(self, parent: Element) -> None:
        for child in parent:
            read = self._inline.get(child.tag)
            if read is not None:
                read(child)

    def _run(self, element: Element) -> None:
        self._set_format(element.find("w_rPr"))
        self._in_run_order(element)

    def _set_format(self, properties: Element | None) -> None:
        self._format = self._format_of(properties)

    def _format_of(self, properties: Element | None) -> TextFormat:
        is_unknown = self._state.has_picture_behind and not self._place.is_in_front
        background = None if is_unknown else self._background
        return self._state.styles.text_format(
            properties, self._style, background, self._place.table
        )

    def _is_hidden(self, properties: Element | None) -> bool:
        return self._format_of(properties).is_hidden

    def _in_run_order(self, element: Element) -> None:
        for child in element:
            read = self._in_run.get(child.tag)
            if read is not None:
                read(child)
                if is_on(child.get("w_customMarkFollows"), default=False):
                    return  # its mark, which the label replaces

    def _add(self, text: str, *, is_markdown: bool = False) -> None:
        """Add text in the format of the run, if it can be seen."""
        if not text or not all(it.in_result and not it.is_replaced for it in self._fields):
            return
        form = self._format
        if (
            self._is_unseen
            or (form is not None and form.is_hidden)
            or any(it.is_hidden for it in self._fields)
        ):
            self._state.hidden_chars += len(text.strip())
        elif form is None or is_markdown:
            self._append(text, RunStyle(verbatim=is_markdown))
        else:
            text = _with_symbols(text.upper() if form.is_upper_case else text, form.font)
            style = RunStyle(
                link=self._link,
                struck=form.is_struck,
                bold=form.is_bold,
                italic=form.is_italic,
                script=form.script,
            )
            self._append(text, style)

    def _append(self, text: str, style: RunStyle) -> None:
        if marks := self._state.take_page_starts():
            self._runs.append((marks, PLAIN))
        self._runs.append((text, style))

    def _break(self, element: Element) -> None:
        if element.get("w_type") == "page":
            if self._has_pages:
                self._state.break_page()
        else:
            self._add(LINE_BREAK)

    def _symbol(self, element: Element) -> None:
        try:
            code = int(element.get("w_char", ""), 16)
        except ValueError:
            return
        if 0x20 <= code < 0x10000 and not 0xD800 <= code < 0xE000:
            self._add(_symbol(code, element.get("w_font", "")))

    def _ruby(self, element: Element) -> None:
        base, reading = element.find("w_rubyBase"), element.find("w_rt")
        if base is not None:
            self._inside(base)
        text = ""
        for run in () if reading is None else reading.iter("w_r"):
            if self._is_hidden(run.find("w_rPr")):
                self._state.count_hidden(run)
            else:
                text += "".join(it.text or "" for it in run.iterfind("w_t"))
        if text:
            self._add(f"({text})")

    def _hyperlink(self, element: Element) -> None:
        relation = self._links.get(element.get("r_id", ""))
        self._linked(element, relation.target if relation and relation.is_external else "")

    def _linked(self, element: Element, address: str) -> None:
        before, self._link = self._link, self._target(address)
        self._inside(element)
        self._link = before

    def _target(self, address: str) -> str:
        is_wanted = self._state.with_link_targets and _ADDRESS.match(address)
        return address if is_wanted else ""

    def _control(self, element: Element) -> None:
        box = element.find("w_sdtPr/w14_checkbox")
        if box is None:
            self._inside(element)
            return
        checked = box.find("w14_checked")
        is_checked = checked is not None and is_on(checked.get("w14_val"))
        first = next(element.iter("w_r"), None)
        self._set_format(None if first is None else first.find("w_rPr"))
        self._add("[x]" if is_checked else "[ ]", is_markdown=True)

    def _equation(self, element: Element, mark: str) -> None:
        self._format = None
        equations = self._state.equations
        text = equations.write(element, self._is_hidden)
        self._state.hidden_chars += equations.take_hidden_chars()
        if text:
            self._add(f"{mark}{text}{mark}", is_markdown=True)

    def _display(self, element: Element) -> None:
        for number, equation in enumerate(element.iterfind("m_oMath")):
            if number:
                self._add(LINE_BREAK)
            self._equation(equation, "$$")

    def _simple_field(self, element: Element) -> None:
        code = element.get("w_instr", "")
        if self._is_page_number(code):
            self._format = None
            self._add(PAGE_NUMBER)
        elif address := _FIELD_ADDRESS.match(code):
            self._linked(element, address[1])
        elif _has_no_result(code):
            self._state.count_hidden(element)
        else:
            self._inside(element)

    def _field_mark(self, element: Element) -> None:
        kind = element.get("w_fldCharType")
        if kind == "begin" and element.get("is_open") is None:
            self._fields.append(_OpenField(is_replaced=self._has_form_value(element)))
        elif kind == "separate" and self._fields:
            opened = self._fields[-1]
            if self._is_page_number(opened.code):
                opened.is_replaced = True
            elif _has_no_result(opened.code):
                opened.is_hidden = True
            elif address := _FIELD_ADDRESS.match(opened.code):
                self._link = self._target(address[1])
            opened.in_result = True
        elif kind == "end" and self._fields:
            self._end_field(self._fields.pop())

    def _end_field(self, ended: _OpenField) -> None:
        if _FIELD_ADDRESS.match(ended.code):
            self._link = ""
        if self._is_page_number(ended.code):
            self._add(PAGE_NUMBER)
        elif not ended.in_result and ended.code.split()[:1] in (["EQ"], ["eq"]):
            self._state.lost_pictures += 1
            letters = ended.code.strip()[2:]
            self._add(" ".join(_EQUATION_SWITCHES.sub("", letters).split()))

    def _field_code(self, element: Element) -> None:
        if self._fields and not self._fields[-1].in_result:
            self._fields[-1].code += element.text or ""

    def _is_page_number(self, code: str) -> bool:
        name = code.split(maxsplit=1)[:1]
        return self._has_page_numbers and bool(name) and name[0].upper() in PAGE_FIELDS

    def _has_form_value(self, begin: Element) -> bool:
        """Add the value of a check box or drop-down list of a form, if the field is one."""
        box, choices = begin.find("w_ffData/w_checkBox"), begin.find("w_ffData/w_ddList")
        if box is not None:
            state = "w_checked" if box.find("w_checked") is not None else "w_default"
            self._add("[x]" if is_set(box, state) else "[ ]", is_markdown=True)
        elif choices is not None:
            entries = [it.get("w_val", "") for it in choices.iterfind("w_listEntry")]
            chosen = value_of(choices, "w_result") or value_of(choices, "w_default") or "0"
            if chosen.isdecimal() and int(chosen) < len(entries):
                self._add(entries[int(chosen)])
        return box is not None or choices is not None

    def _note(self, element: Element, kind: str) -> None:
        note_id = element.get("w_id", "")
        label = self._state.note_label(kind, note_id)
        self._anchored.notes.append(NoteReference(kind, note_id, label))
        if self._runs and self._runs[-1][1].script == "note":
            self._append(" ", PLAIN)
        self._append(label, RunStyle(script="note"))

    def _drawing(self, element: Element) -> None:
        shapes = self._state.shapes
        is_hidden = shapes.is_drawing_hidden(element, is_in_cell=self._place.kind == "cell")
        if not is_hidden and shapes.covers(element):
            self._state.has_picture_behind = True
        before = len(self._anchored.boxes)
        self._add_parts(element)
        description = next(element.iter("wp_docPr"), None)
        if description is not None and not is_hidden and len(self._anchored.boxes) == before:
            self._add_description(description.get("descr", ""))

    def _picture(self, element: Element) -> None:
        """Read a drawing in the older VML, or an embedded object."""
        if self._state.shapes.covers_in_vml(element):
            self._state.has_picture_behind = True
        self._add_parts(element)
        for ole in element.iter("o_OLEObject"):
            self._state.lost_pictures += ole.get("ProgID", "").startswith("Equation")

    def _add_parts(self, element: Element) -> None:
        """Add the text boxes, word art and descriptions of pictures of a drawing."""
        for part in self._state.shapes.parts(element, is_in_cell=self._place.kind == "cell"):
            if part.element.tag == "w_txbxContent":
                self._anchored.boxes.append(part)
            elif part.is_hidden:
                self._state.hidden_chars += len(part.element.get("string", "").strip())
            elif part.element.tag == "v_textpath":
                self._add(part.element.get("string", ""))
            else:
                self._add_description(part.element.get("o_title", ""))

    def _add_description(self, text: str) -> None:
        if text.strip():
            self._add(f" {' '.join(text.split())} ")


def mark_open_fields(root: Element) -> None:
    """Mark fields without an end, whose code would otherwise hide all text after it.

    Raises ImportFailed.
    """
    deleted = {
        id(mark)
        for kind in ("w_del", "w_moveFrom")
        for change in root.iter(kind)
        for mark in change.iter("w_fldChar")
    }
    begun: list[Element] = []
    for mark in root.iter("w_fldChar"):
        if id(mark) in deleted:
            continue
        kind = mark.get("w_fldCharType")
        if kind == "begin":
            begun.append(mark)
            if len(begun) > MAX_OPEN_FIELDS:
                raise ImportFailed(
                    f"has more than {MAX_OPEN_FIELDS} fields within each other: export it as PDF"
                )
        elif kind == "end" and begun:
            begun.pop()
    for mark in begun:
        mark.set("is_open", "1")


def _texts(element: Element) -> Iterator[str]:
    return (it.text or "" for it in element.iter() if it.tag in ("w_t", "m_t"))


def _has_no_result(code: str) -> bool:
    name = code.split(maxsplit=1)[:1]
    return bool(name) and name[0].upper() in _WITHOUT_RESULT


def _symbol(code: int, font: str) -> str:
    """Return the character that a font shows for a code; "" if it is unknown."""
    if code in _PRIVATE:
        code -= _PRIVATE.start
        return _FONTS.get(font.lower(), {}).get(code, "")
    return _FONTS.get(font.lower(), {}).get(code, chr(code))


def _with_symbols(text: str, font: str) -> str:
    """Return text as a font shows it: of the font Symbol, or with codes of symbol fonts."""
    if font.lower() == "symbol" or _PRIVATE_USE.search(text):
        return "".join(
            _symbol(ord(c), font) if ord(c) in _PRIVATE or font.lower() == "symbol" else c
            for c in text
        )
    return text
