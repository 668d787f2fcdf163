"""Imports RTF: the text becomes HTML, which is converted to Markdown.

Read here, as striprtf loses footnotes, text boxes and exponents, and keeps hidden text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from html import escape, unescape
from typing import ClassVar, NamedTuple

from mcp_tools_proxy.documents.importers.base import (
    FileFacts,
    ImportOptions,
    one_line,
)
from mcp_tools_proxy.documents.importers.docx_sections import PageArea
from mcp_tools_proxy.documents.importers.html import html_to_markdown
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.documents.importers.rtf_looks import (
    LOOK_WORDS,
    STYLE_SHEET,
    UNKNOWN_BACKGROUND,
    RtfState,
    RtfStyles,
)
from mcp_tools_proxy.documents.importers.rtf_table import TABLE_WORDS, RtfTable
from mcp_tools_proxy.documents.importers.running_titles import (
    PAGE_FIELDS,
    PAGE_NUMBER,
    running_title,
    without_page_numbers,
)
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\",
    re.DOTALL,
)
_WINDOWS_PAGES = (
    *((128, 932), (129, 949), (161, 1253), (162, 1254), (163, 1258), (177, 1255), (178, 1256)),
    *((186, 1257), (204, 1251), (222, 874), (238, 1250), (254, 437), (255, 850)),
)

_CHARSETS = {
    **{number: f"cp{page}" for number, page in _WINDOWS_PAGES},
    77: "mac-roman",
    130: "johab",
    134: "gb18030",
    136: "big5",
}

_CODE_PAGES = {65001: "utf-8", 10000: "mac-roman", 936: "gb18030", 950: "big5", 1361: "johab"}

_SYMBOLS = 2
"""Character set of fonts of signs; those that office programs use for bullets."""

_NOT_CHOSEN = 25
"""The number of the entry in a form field that has not been filled in."""


_TEXTS = {
    "tab": " ",
    "emdash": "—",
    "endash": "–",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "~": "\u00a0",
    "_": "-",
    "{": "{",
    "}": "}",
    "\\": "\\",
    "\n": " ",
    "\r": " ",
    "zwj": "\u200d",
    "zwnj": "\u200c",
    "ltrmark": "",
    "rtlmark": "",
}
_MARGINS = {
    **dict.fromkeys(("header", "headerl", "headerr", "headerf"), "Header"),
    **dict.fromkeys(("footer", "footerl", "footerr", "footerf"), "Footer"),
}
_SKIPPED = frozenset(
    {
        *("stylesheet", "listtable", "listoverridetable", "revtbl", "rsidtbl", "filetbl", "info"),
        *("pict", "object", "objdata", "fldinst", "datafield", "themedata", "colorschememapping"),
        *("latentstyles", "generator", "bkmkstart", "bkmkend", "xe", "tc", "txe"),
        *("rxe", "nonshppict", "ftnsep", "ftnsepc", "aftnsep", "aftnsepc", "userprops", "xmlnstbl"),
        *("nonesttables", "bkmkpub", "objclass"),
        *("pgdsctbl", "formfield", "private", "template", "operator", "author", "background"),
        *("atnid", "atnauthor", "atntime", "atnref", "atrfstart", "atrfend", "pnseclvl", "pntxta"),
        *("pntxtb", "mmathPr", "falt", "panose", "wgrffmtfilter", "docvar"),
    }
)
_PAGE_FIELDS = [[name] for name in PAGE_FIELDS]
_WORD_ART = "gtextUNICODE"
_MARKUP = re.compile(r"<[^<>]*>")
_CELL_END, _ROW_END = ", ", "; "
"""Ends of the cells and rows of a table within a cell."""

_HEADING_STYLE = re.compile(r"\s*heading ([1-6]);?\s*", re.IGNORECASE)
_INSERTED = {
    **_MARGINS,
    **dict.fromkeys(("shptxt", "dptxbxtext"), "box"),
    **{it: it for it in ("footnote", "annotation", "sp")},
}
"""Groups with a text of their own, to its kind; ``sp`` is a property of a shape."""

_SHAPES = frozenset({"shpinst", "do"})
_STARRED = frozenset({*_SHAPES, *_INSERTED})
"""Optional groups whose text is read."""

_IGNORED = "skipped shape"
"""A copy of a shape for older programs: also its paragraphs do not count."""


_NO_STYLE = -1


class _Interrupted(NamedTuple):
    """A paragraph in which a group with a text of its own starts."""

    depth: int
    kind: str
    line: list[str]
    level: int
    is_in_table: bool


def _margin_line(html: str) -> str:
    """Return a line of a header or footer; it is "" without the text around page numbers."""
    text = unescape(_MARKUP.sub("", html))
    if PAGE_NUMBER not in text:
        return html if text.strip() else ""
    text = without_page_numbers(text)
    return html.replace(PAGE_NUMBER, "") if text and "<" in html else escape(text)


class RtfEncodings:
    """The code page of a file, and the character sets of its fonts."""

    def __init__(self) -> None:
        self.code_page = "cp1252"
        self._fonts: dict[int, int] = {}

    def set_code_page(self, number: int) -> None:
        """Set the code page by its number in Windows."""
        self.code_page = _CODE_PAGES.get(number, f"cp{number}")

    def add_font(self, font: int, charset: int) -> None:
        """Store the character set of a font."""
        self._fonts[font] = charset

    def decode(self, content: bytes, font: int, *, is_wide: bool) -> str:
        """Return bytes as text; ``is_wide`` says that they are UTF-16."""
        charset = self._fonts.get(font, 0)
        encoding = "utf-16-le" if is_wide else _CHARSETS.get(charset, self.code_page)
        try:
            text = content.decode(encoding, "replace")
        except LookupError:
            text = content.decode("cp1252", "replace")
        if charset == _SYMBOLS:
            text = text.replace("·", "-").replace("\uf0b7", "-")
        return text


@dataclass(slots=True)
class RtfField:
    """The instruction of a field, and what forms state of its value."""

    instruction: str = ""
    chosen: int = _NOT_CHOSEN
    default: int = -1
    entries: list[str] = field(default_factory=list)

    def form_value(self) -> str:
        """Return the value of a check box or a list, or "": others have theirs in the text."""
        chosen = self.default if self.chosen == _NOT_CHOSEN else self.chosen
        name = next(iter(self.instruction.upper().split()), "")
        if name == "FORMCHECKBOX" and chosen >= 0:  # LibreOffice does not write the state
            return "[x]" if chosen else "[ ]"
        if name == "FORMDROPDOWN" and 0 <= chosen < len(self.entries):
            return self.entries[chosen]
        return ""


class RtfReader:
    """Reads an RTF file once, from its start to its end."""

    def __init__(self, text: str, *, with_notes: bool) -> None:
        self.title = ""
        self._text = text
        self._with_notes = with_notes
        self._state = RtfState()
        self._states: list[RtfState] = []
        self._interrupted: list[_Interrupted] = []
        self._boxes: list[str] = []
        """The text boxes of the current paragraph."""
        self._encodings = RtfEncodings()
        self._colours: list[str] = []
        self._colour = [0, 0, 0]
        self._bytes = bytearray()
        self._is_wide = False
        """Whether the pending bytes are UTF-16."""
        self._skipped = 0
        """Characters of the fallback for a Unicode character that are still to be skipped."""
        self._is_optional = False
        self._is_encapsulated = False
        """Whether the file is HTML in groups of RTF, as Outlook writes it."""
        self._line: list[str] = []
        self._level = 0
        self._style_number = 0
        self._style_levels: dict[int, int] = {}
        self._styles = RtfStyles()
        self._page = PageArea(12_240, 15_840, 1_800, 1_440)
        self._blocks: list[str] = []
        self._notes: list[str] = []
        self._margins: dict[str, str] = {}
        """Headers and footers, each with its kind."""
        self._field = RtfField()
        """The last field."""
        self._is_in_table = False
        self._table = RtfTable()

    def html(self) -> str:
        """Return the text as HTML; headers, footers and notes are marked."""
        at = 0
        while (token := _TOKEN.match(self._text, at)) is not None:
            at = token.end()
            if token[1] == "bin":
                at += max(0, int(token[2] or 0))
            else:
                self._read_token(token)
        self._flush()
        if self._is_encapsulated:
            return "".join(self._line)
        if self._table.cells:
            self._table.end_row()
        self._end_block("p")
        self._blocks += self._table.pop_html(self._colours)
        headers, footers = (
            [f"<p>[{kind}: {it}]</p>" for it, found in self._margins.items() if found == kind]
            for kind in ("Header", "Footer")
        )
        return "".join([*headers, *self._blocks, *self._notes, *footers])

    def _read_token(self, token: re.Match[str]) -> None:
        word, number, code, sign, brace, text = token.groups()
        if word:
            self._read_word(word, None if number is None else int(number))
        elif brace:
            self._read_brace(brace)
        elif code:
            self._add_bytes(bytes.fromhex(code))
        elif sign:
            self._read_sign(sign)
        elif text:
            self._add_bytes(text.encode("latin-1", "replace"))

    def _read_brace(self, brace: str) -> None:
        self._flush()
        self._skipped = 0
        if brace == "{":
            self._states.append(self._state)
            return
        if self._interrupted and self._interrupted[-1].depth == len(self._states):
            self._end_inserted()
        if self._state.style is not None and self._state.target == STYLE_SHEET:
            self._styles.add(self._state.style, self._state.look, self._state.base)
        if self._states:
            self._state = self._states.pop()

    def _read_sign(self, sign: str) -> None:
        if sign == "*":
            self._is_optional = True
        elif sign in _TEXTS:
            self._flush()
            self._add_text(_TEXTS[sign])

    def _read_word(self, word: str, number: int | None) -> None:
        is_optional, self._is_optional = self._is_optional, False
        if word == "u":
            self._add_unicode(number or 0)
            return
        self._flush()
        if self._state.target == _IGNORED or self._read_destination(word, is_optional=is_optional):
            return
        if word in _TEXTS:
            self._add_text(_TEXTS[word])
        elif (change := LOOK_WORDS.get(word)) is not None:
            self._state = change(self._state, 1 if number is None else number)
        elif (edit := TABLE_WORDS.get(word)) is not None:
            if not (self._interrupted or self._state.target == "skipped nesttableprops"):
                edit(self._table, 1 if number is None else number)
        elif (read := self._words.get(word)) is not None:
            read(self, 1 if number is None else number)

    def _read_destination(self, word: str, *, is_optional: bool) -> bool:
        """Return whether the word starts a group with another meaning than text."""
        is_skipped = self._state.target.startswith(("skipped ", "deleted"))
        if word == "shprslt" or (is_skipped and (word in _SHAPES or word in _INSERTED)):
            self._set(target=_IGNORED)
        elif word in ("fonttbl", "colortbl", "htmltag") or word in _SHAPES:
            self._set(target=word)
        elif word == "fldrslt" and (value := self._field_value()):
            self._add_text(value)
            self._set(target="skipped field")
        elif word in _SKIPPED or (is_optional and not self._is_read(word)):
            self._set(target=f"skipped {word}")
            if word == "fldinst":
                self._field = RtfField()
        elif (kind := _INSERTED.get(word)) is not None:
            self._start_inserted(kind)
        elif word == "title" and self._state.target == "skipped info":
            self._set(target="title")
        else:
            return False
        return True

    def _is_read(self, word: str) -> bool:
        """Return whether an optional group is read."""
        return word in _STARRED or (word == "cs" and self._state.target == STYLE_SHEET)

    def _is_in_margin(self) -> bool:
        return any(it.kind in ("Header", "Footer") for it in self._interrupted)

    def _field_value(self) -> str:
        """Return the value of a field that is not in its text."""
        name = self._field.instruction.upper().split()[:1]
        return (
            PAGE_NUMBER
            if self._is_in_margin() and name in _PAGE_FIELDS
            else self._field.form_value()
        )

    def _set(self, **changes: object) -> None:
        self._state = self._state._replace(**changes)  # type: ignore[arg-type] # its own fields

    def _set_font(self, number: int) -> None:
        self._set(font=number)

    def _set_charset(self, number: int) -> None:
        if self._state.target == "fonttbl":
            self._encodings.add_font(self._state.font, number)

    def _end_paragraph(self, _: int) -> None:
        if self._state.target != "text":
            return
        if self._is_encapsulated:
            self._line.append("\n")
        elif self._is_in_table or self._interrupted:
            self._line.append("<br>")
        else:
            self._end_block(f"h{self._level}" if self._level else "p")

    def _reset_paragraph(self, _: int) -> None:
        self._level = 0
        self._is_in_table = False
        self._state = self._state.at_paragraph_start()

    def _set_page(self, **changes: int) -> None:
        self._page = self._page._replace(**changes)  # type: ignore[arg-type]

    def _set_style(self, number: int) -> None:
        if self._state.target == STYLE_SHEET:
            self._style_number = number
            self._set(style=("s", number))
        else:
            self._level = self._style_levels.get(number, self._level)
            self._set(paragraph_style=number)

    def _set_character_style(self, number: int) -> None:
        if self._state.target == STYLE_SHEET:
            self._style_number = _NO_STYLE
            self._set(style=("cs", number))
        else:
            self._set(character_style=number)

    def _set_level(self, number: int) -> None:
        level = number + 1 if 0 <= number < 6 else 0
        if self._state.target == STYLE_SHEET:
            self._style_levels[self._style_number] = level
        else:
            self._level = level

    def _end_cell(self, _: int) -> None:
        if self._interrupted:
            self._line.append("<br>")
            return
        self._table.cells.append("".join(self._line).removesuffix("<br>").removesuffix(_ROW_END))
        self._line = []

    def _end_nested_cell(self, _: int) -> None:
        if self._state.target == "text" and not self._interrupted:
            self._line.append(_CELL_END)

    def _end_nested_row(self, _: int) -> None:
        if self._line and not self._interrupted:
            self._line[-1] = self._line[-1].removesuffix(_CELL_END) + _ROW_END

    def _set_colour_part(self, part: int, number: int) -> None:
        if self._state.target == "colortbl":
            self._colour[part] = number & 255

    def _start_inserted(self, kind: str) -> None:
        """Start a text that stands apart from the text around it."""
        self._interrupted.append(
            _Interrupted(len(self._states), kind, self._line, self._level, self._is_in_table)
        )
        self._line, self._level, self._is_in_table = [], 0, False
        self._state = self._state.at_paragraph_start()
        self._set(target="text", script="")

    def _end_inserted(self) -> None:
        _, kind, line, self._level, self._is_in_table = self._interrupted.pop()
        html = "".join(self._line).removesuffix("<br>").strip()
        self._line = line
        if not html or self._state.target != "text":
            return
        if kind == "sp":
            self._end_property(html)
        elif kind == "box":
            self._end_box(html)
        elif kind == "footnote":
            mark = f"[{len(self._notes) + 1}]"
            self._notes.append(f"<p>{mark} {html}</p>")
            self._line.append(f"<sup>{mark}</sup>")
        elif kind == "annotation":
            self._line.append(f" [Comment: {html}] " if self._with_notes else "")
        elif text := running_title(map(_margin_line, html.split("<br>"))):
            self._margins.setdefault(text, kind)

    def _end_property(self, html: str) -> None:
        """End the name and value of a property of a shape; its group is the one around this."""
        if html == "fHidden1" and self._states:
            self._states[-1] = self._states[-1]._replace(is_shape_hidden=True)
        elif html.startswith(_WORD_ART):
            hidden = " hidden" if self._state.is_shape_hidden else ""
            self._line.append(f" <span{hidden}>{html.removeprefix(_WORD_ART)}</span> ")

    def _end_box(self, html: str) -> None:
        is_hidden = self._state.is_shape_hidden or self._state.shape.is_unseen(self._page)
        # a box can have a fill behind white text
        look = f'{" hidden" if is_hidden else ""} style="{UNKNOWN_BACKGROUND}"'
        if self._interrupted or self._is_in_table:
            self._line.append(f"<br><span{look}>{html}</span><br>")
        else:
            lines = "".join(f"<p>{it}</p>" for it in html.split("<br>"))
            self._boxes.append(f"<div{look}>{lines}</div>")

    _words: ClassVar[Mapping[str, Callable[["RtfReader", int], None]]] = {
        "par": _end_paragraph,
        "chpgn": lambda self, _: self._add_html(PAGE_NUMBER if self._is_in_margin() else ""),
        "sect": _end_paragraph,
        "page": _end_paragraph,
        "line": lambda self, _: self._add_html("\n" if self._is_encapsulated else "<br>"),
        "fromhtml": lambda self, number: setattr(self, "_is_encapsulated", bool(number)),
        "pard": _reset_paragraph,
        "intbl": lambda self, _: setattr(self, "_is_in_table", True),
        "s": _set_style,
        "outlinelevel": _set_level,
        "cell": _end_cell,
        "nestcell": _end_nested_cell,
        "nestrow": _end_nested_row,
        "f": _set_font,
        "fcharset": _set_charset,
        "ansicpg": lambda self, number: self._encodings.set_code_page(number),
        "mac": lambda self, _: setattr(self._encodings, "code_page", "mac-roman"),
        "pc": lambda self, _: setattr(self._encodings, "code_page", "cp437"),
        "pca": lambda self, _: setattr(self._encodings, "code_page", "cp850"),
        "uc": lambda self, number: self._set(fallback=number),
        "cs": _set_character_style,
        "sbasedon": lambda self, number: self._set(base=number),
        "paperw": lambda self, number: self._set_page(width=number),
        "paperh": lambda self, number: self._set_page(height=number),
        "margl": lambda self, number: self._set_page(left=number),
        "margt": lambda self, number: self._set_page(top=number),
        "cols": lambda self, number: self._set_page(has_columns=number > 1),
        "red": lambda self, number: self._set_colour_part(0, number),
        "green": lambda self, number: self._set_colour_part(1, number),
        "blue": lambda self, number: self._set_colour_part(2, number),
        "deleted": lambda self, number: self._set(target="deleted" if number else "text"),
        "ffres": lambda self, number: setattr(self._field, "chosen", number),
        "ffdefres": lambda self, number: setattr(self._field, "default", number),
        "htmlrtf": lambda self, number: self._set(target="skipped" if number else "text"),
    }

    def _add_unicode(self, number: int) -> None:
        """Add a character; the numbers of a surrogate pair follow each other."""
        if not self._is_wide:
            self._flush()
        self._is_wide = True
        self._bytes += (number & 0xFFFF).to_bytes(2, "little")
        self._skipped = self._state.fallback

    def _add_bytes(self, content: bytes) -> None:
        if self._skipped:
            skipped = min(self._skipped, len(content))
            self._skipped -= skipped
            content = content[skipped:]
        if content:
            if self._is_wide:
                self._flush()
            self._bytes += content

    def _flush(self) -> None:
        """Decode the pending bytes."""
        content, self._bytes = bytes(self._bytes), bytearray()
        is_wide, self._is_wide = self._is_wide, False
        if not content:
            return
        self._add_text(self._encodings.decode(content, self._state.font, is_wide=is_wide))

    def _add_text(self, text: str) -> None:
        state = self._state
        if state.target == "title":
            self.title += text
        elif state.target == "colortbl":
            for _ in range(text.count(";")):
                self._colours.append("#{:02x}{:02x}{:02x}".format(*self._colour))
                self._colour = [0, 0, 0]
        elif state.target == STYLE_SHEET and (name := _HEADING_STYLE.fullmatch(text)):
            self._style_levels[self._style_number] = int(name[1])
        elif state.target == "skipped fldinst":
            self._field.instruction += text
        elif state.target == "skipped ffl":
            self._field.entries.append(text)
        elif state.target in ("htmltag", "text"):
            self._add_html(text if state.target == "htmltag" else escape(text))

    def _add_html(self, html: str) -> None:
        state = self._state
        if state.target == "htmltag" or (state.target == "text" and self._is_encapsulated):
            self._line.append(html)
        if state.target != "text" or self._is_encapsulated:
            return
        if state.script:
            html = f"<{state.script}>{html}</{state.script}>"
        if style := self._style(state):
            html = f"<span{style}>{html}</span>"
        self._line.append(html)

    def _style(self, state: RtfState) -> str:
        if self._styles.hide(state) or state.is_unseen(self._page):
            return " hidden"
        if self._is_in_table and (state.nesting > 1 or self._interrupted):
            return ""  # its cell can have a colour
        css = state.look.css(self._colours)
        return f' style="{css}"' if css else ""

    def _end_block(self, tag: str) -> None:
        html = "".join(self._line).strip()
        self._line = []
        blocks = [f"<{tag}>{html}</{tag}>"] if html else []
        blocks += self._boxes
        self._boxes = []
        if blocks:
            self._blocks += self._table.pop_html(self._colours) + blocks


def import_rtf(data: bytes, options: ImportOptions) -> Document:
    """Build a document from RTF; headings become sections. Raises ImportFailed."""
    reader = RtfReader(data.decode("latin-1"), with_notes=options.with_notes)
    converted = html_to_markdown(reader.html(), with_link_targets=options.with_link_targets)
    return build_from_markdown(
        converted.markdown,
        options,
        facts=FileFacts(title=own_title(one_line(reader.title))),
        hidden_chars=converted.hidden_chars,
    )
