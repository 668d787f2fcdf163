"""Styles of Word files: headings, the title, and the format of text with what hides it."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.css_colours import Colour
from mcp_tools_proxy.documents.importers.docx_colours import Properties, WordColours
from mcp_tools_proxy.documents.importers.docx_table_styles import NO_PROPERTIES, TableStyle
from mcp_tools_proxy.documents.importers.office_styles import SMALLEST_POINTS, inherited
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|titolo|kop|rubrik|overskrift|otsikko|nagłówek|"
    r"заголовок|nadpis|címsor|başlık|标题|標題|見出し|제목)\s*([1-9])"
)
_TITLE = re.compile("title|titel|titre|título|titulo|titolo|tytuł|název|cím|başlık|标题|標題|表題")
_SUBTITLES = ("subtitle", "untertitel", "sous-titre", "subtítulo", "sottotitolo", "ondertitel")

_NO = frozenset({"0", "false", "off", "none"})

_MAX_BASES = 20
"""Styles that are examined for a heading or list, one based on another; Word has at most 10."""

_USED = frozenset(
    {
        *("w_vanish", "w_sz", "w_color", "w_highlight", "w_shd", "w14_textFill"),
        *("w14_textOutline", "w_b", "w_i", "w_caps", "w_vertAlign", "w_position", "w_rFonts"),
        *(
            "w_rStyle",
            "w_lang",
            "w_pageBreakBefore",
            "w_ind",
            "w_spacing",
            "w_framePr",
            "w_jc",
            "w_strike",
            "w_dstrike",
        ),
    }
)
"""Properties that are read. Styles can have any others, which 100,000 derived ones would copy."""

_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(pt|in|cm|mm|pc|pi)?")
_HALF_POINTS = {"pt": 2, "in": 144, "cm": 56.7, "mm": 5.67, "pc": 24, "pi": 24, None: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """The format of a run that matters for its text."""

    is_struck: bool
    is_bold: bool
    is_italic: bool
    script: str
    font: str
    is_upper_case: bool
    is_hidden: bool


class Styles:
    """The styles of ``styles.xml``; a style inherits from the style that it is based on."""

    def __init__(self, root: Element | None, colours: WordColours) -> None:
        self.colours = colours
        self._styles: dict[str, Element] = {}
        self._merged: dict[str, dict[str, Properties]] = {"w_rPr": {}, "w_pPr": {}}
        self._tables: dict[str, TableStyle] = {}
        self.default_paragraph = ""
        self._default_table = ""
        self.list_styles: dict[str, str] = {}
        self._defaults: Properties = {}
        if root is None:
            return
        self._defaults = _properties(root.find("w_docDefaults/w_rPrDefault/w_rPr"))
        for style in root.iterfind("w_style"):
            style_id, kind = style.get("w_styleId", ""), style.get("w_type")
            if not style_id:
                continue
            self._styles[style_id] = style
            if kind == "paragraph" and is_on(style.get("w_default"), default=False):
                self.default_paragraph = style_id
            if kind == "table" and is_on(style.get("w_default"), default=False):
                self._default_table = style_id
            list_id = style.find("w_pPr/w_numPr/w_numId")
            if kind == "numbering" and list_id is not None:
                self.list_styles[style_id] = list_id.get("w_val", "")

    @property
    def is_english(self) -> bool:
        """Whether the text is in English, or in a language that the file does not name."""
        language = self._defaults.get("w_lang")
        return language is None or language.get("w_val", "en").startswith("en")

    def paragraph(self, style_id: str) -> Properties:
        """Return the paragraph properties of a style."""
        return self._inherited(style_id, "w_pPr")

    def heading_level(self, style_id: str) -> int | None:
        """Return 1 to 9 for the style of a heading, by its outline level or its name."""
        for style in self._chain(style_id):
            level = style.find("w_pPr/w_outlineLvl")
            if level is not None:
                return outline_level(level)
            if match := _HEADING.fullmatch(_name(style)):
                return int(match[1])
        return None

    def is_title(self, style_id: str) -> bool:
        """Return whether a style is that of the document's title, or based on it."""
        for style in self._chain(style_id):
            name = _name(style)
            if name.startswith(_SUBTITLES):
                return False
            if _TITLE.fullmatch(name):
                return True
        return False

    def list_of(self, style_id: str) -> tuple[str, str, str]:
        """Return the list id, the level ("" for none) and the style that names the list."""
        level = ""
        for style in self._chain(style_id):
            numbers = style.find("w_pPr/w_numPr")
            if numbers is None:
                continue
            level = level or value_of(numbers, "w_ilvl")
            if list_id := value_of(numbers, "w_numId"):
                return list_id, level, style.get("w_styleId", "")
        return "", level, ""

    def table(self, style_id: str) -> TableStyle:
        """Return the formats of the parts of a table by a table style; "" is the default one."""
        key = style_id or self._default_table
        return inherited(key, self._tables, TableStyle(), self._based, TableStyle.derived)

    def text_format(
        self,
        direct: Element | None,
        style_id: str,
        background: Colour | None,
        table: Properties = NO_PROPERTIES,
    ) -> TextFormat:
        """Return the format of a run in a paragraph of a style.

        ``background`` is the colour behind the paragraph, or None if it is unknown; ``table`` are
        the properties that the table's style gives to the cell.
        """
        own = _properties(direct)
        character = own.get("w_rStyle")
        named = self._inherited("" if character is None else character.get("w_val", ""), "w_rPr")
        emphasis = {**named, **own}
        of_paragraph = self._inherited(style_id, "w_rPr")
        usual = {**self._defaults, **table, **of_paragraph}
        every = {**usual, **emphasis}
        fonts = every.get("w_rFonts")
        return TextFormat(
            is_struck=_is_set(every, "w_strike") or _is_set(every, "w_dstrike"),
            is_bold=_is_set(emphasis, "w_b"),
            is_italic=_is_set(emphasis, "w_i"),
            script=self._script(every.get("w_vertAlign"), character) or _moved(emphasis, usual),
            font="" if fonts is None else fonts.get("w_ascii", ""),
            is_upper_case=_is_set(emphasis, "w_caps"),
            is_hidden=self._is_vanished(own, (table, of_paragraph, named))
            or _is_tiny(every)
            or self.colours.hides(every, background),
        )

    def _is_vanished(self, own: Properties, styles: tuple[Properties, ...]) -> bool:
        """Return whether text is hidden; a style within another one inverts it."""
        if "w_vanish" in own:
            return _is_set(own, "w_vanish")
        is_odd = sum(_is_set(it, "w_vanish") for it in styles) % 2 == 1
        return is_odd or _is_set(self._defaults, "w_vanish")

    def _script(self, element: Element | None, character: Element | None) -> str:
        kind = "" if element is None else element.get("w_val", "")
        script = {"superscript": "^", "subscript": "_"}.get(kind, "")
        style = None if character is None else self._styles.get(character.get("w_val", ""))
        is_note = style is not None and _name(style) in {"footnote reference", "endnote reference"}
        return "note" if script == "^" and is_note else script

    def _inherited(self, style_id: str, kind: str) -> Properties:
        """Return the properties of a style with those of all that it is based on."""
        return inherited(
            style_id,
            self._merged[kind],
            NO_PROPERTIES,
            self._based,
            lambda base, style: {**base, **_properties(style.find(kind))},
        )

    def _based(self, style_id: str) -> tuple[Element, str] | None:
        """Return a style, and the id of the one that it is based on."""
        style = self._styles.get(style_id)
        return None if style is None else (style, value_of(style, "w_basedOn"))

    def _chain(self, style_id: str) -> Iterator[Element]:
        """Yield a style and those that it is based on."""
        seen: set[str] = set()
        while style_id in self._styles and style_id not in seen and len(seen) < _MAX_BASES:
            seen.add(style_id)
            style = self._styles[style_id]
            yield style
            style_id = value_of(style, "w_basedOn")


def is_on(value: str | None, *, default: bool = True) -> bool:
    """Return a Boolean attribute; without a value it is ``default``."""
    return default if value is None else value not in _NO


def is_set(parent: Element | None, path: str) -> bool:
    """Return whether a switch such as ``w_vanish`` is there and not off."""
    found = None if parent is None else parent.find(path)
    return found is not None and is_on(found.get("w_val"))


def value_of(parent: Element | None, path: str) -> str:
    """Return the value of a child, or ""."""
    found = None if parent is None else parent.find(path)
    return "" if found is None else found.get("w_val", "")


def outline_level(element: Element) -> int | None:
    """Return the heading level of ``w_outlineLvl``; None for body text."""
    level = element.get("w_val", "")
    return int(level) + 1 if level.isdecimal() and int(level) < 9 else None


def _properties(element: Element | None) -> Properties:
    if element is None:
        return NO_PROPERTIES
    return {child.tag: child for child in element if child.tag in _USED}


def _name(style: Element) -> str:
    return " ".join(value_of(style, "w_name").lower().split())


def _is_set(properties: Properties, name: str) -> bool:
    found = properties.get(name)
    return found is not None and is_on(found.get("w_val"))


def _moved(properties: Properties, usual: Properties) -> str:
    """Return the script of smaller text that is raised or lowered without ``w_vertAlign``."""
    shift, size, usual_size = (
        _half_points(it, name, default)
        for it, name, default in (
            (properties, "w_position", 0),
            (properties, "w_sz", 0),
            (usual, "w_sz", _USUAL_SIZE),
        )
    )
    if not shift or not 0 < size < _SMALL * usual_size:
        return ""
    return "^" if shift > 0 else "_"


_USUAL_SIZE = 20
_SMALL = 0.9


def _half_points(properties: Properties, name: str, default: int) -> int:
    found = properties.get(name)
    value = "" if found is None else found.get("w_val", "")
    return int(value) if re.fullmatch(r"-?\d{1,4}", value) else default


def _is_tiny(properties: Properties) -> bool:
    size = properties.get("w_sz")
    found = None if size is None else _SIZE.fullmatch(size.get("w_val", ""))
    return found is not None and float(found[1]) * _HALF_POINTS[found[2]] <= 2 * SMALLEST_POINTS
