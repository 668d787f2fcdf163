"""Styles of Word files: headings, the title, and the format of text with what hides it."""

import re
from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from mcp_tools_proxy.domain.fast_dataclass import dataclass

_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|titolo|kop|rubrik|overskrift|otsikko|nagłówek|"
    r"заголовок|nadpis|címsor|başlık|标题|標題|見出し|제목)\s*([1-9])"
)
_TITLE = re.compile("title|titel|titre|título|titulo|titolo|tytuł|název|cím|başlık|标题|標題|表題")
_SUBTITLES = ("subtitle", "untertitel", "sous-titre", "subtítulo", "sottotitolo", "ondertitel")

_NO = frozenset({"0", "false", "off", "none"})

_SMALLEST_HALF_POINTS = 3
"""Text of at most 1.5 points cannot be read."""

_MAX_BASES = 20
"""Styles that a style is based on, one on another; Word has at most 10."""

_SAME_COLOR = 24
"""Difference of red, green or blue up to which text has the colour of its background."""

_WHITE = "FFFFFF"
_BLACK = "000000"

_HIGHLIGHTS = {
    "black": "000000",
    "blue": "0000FF",
    "cyan": "00FFFF",
    "darkBlue": "000080",
    "darkCyan": "008080",
    "darkGray": "808080",
    "darkGreen": "008000",
    "darkMagenta": "800080",
    "darkRed": "800000",
    "darkYellow": "808000",
    "green": "00FF00",
    "lightGray": "C0C0C0",
    "magenta": "FF00FF",
    "red": "FF0000",
    "white": _WHITE,
    "yellow": "FFFF00",
}

Properties = Mapping[str, Element]
"""Elements of ``w_rPr`` or ``w_pPr`` by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """The format of a run that matters for its text."""

    is_bold: bool
    is_italic: bool
    script: str
    font: str
    is_upper_case: bool
    is_hidden: bool


class Styles:
    """The styles of ``styles.xml``; a style inherits from the style that it is based on."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, Element] = {}
        self._merged: dict[tuple[str, str], Properties] = {}
        self.default_paragraph = ""
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

    def has_shading(self, style_id: str) -> bool:
        """Return whether a table style fills cells: text can have any colour there."""
        return any(
            (background_of(shade) or _WHITE) != _WHITE
            for style in self._chain(style_id)
            for shade in style.iter("w_shd")
        )

    def text_format(
        self, direct: Element | None, style_id: str, background: str | None
    ) -> TextFormat:
        """Return the format of a run in a paragraph of a style.

        ``background`` is the colour behind the paragraph, or None if it is unknown.
        """
        own = _properties(direct)
        character = own.get("w_rStyle")
        named = {} if character is None else self._inherited(character.get("w_val", ""), "w_rPr")
        emphasis = {**named, **own}
        usual = {**self._defaults, **self._inherited(style_id, "w_rPr")}
        every = {**usual, **emphasis}
        fonts = every.get("w_rFonts")
        return TextFormat(
            is_bold=_is_set(emphasis, "w_b"),
            is_italic=_is_set(emphasis, "w_i"),
            script=self._script(every.get("w_vertAlign"), character) or _moved(emphasis, usual),
            font="" if fonts is None else fonts.get("w_ascii", ""),
            is_upper_case=_is_set(emphasis, "w_caps"),
            is_hidden=_is_hidden(every, background),
        )

    def _script(self, element: Element | None, character: Element | None) -> str:
        kind = "" if element is None else element.get("w_val", "")
        script = {"superscript": "^", "subscript": "_"}.get(kind, "")
        style = None if character is None else self._styles.get(character.get("w_val", ""))
        is_note = style is not None and _name(style) in {"footnote reference", "endnote reference"}
        return "note" if script == "^" and is_note else script

    def _inherited(self, style_id: str, kind: str) -> Properties:
        key = (style_id, kind)
        if key not in self._merged:
            merged: dict[str, Element] = {}
            for style in self._chain(style_id):
                merged = {**_properties(style.find(kind)), **merged}
            self._merged[key] = merged
        return self._merged[key]

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


def background_of(shading: Element) -> str | None:
    """Return the colour of ``w_shd``; "" for a pattern or theme colour, None for no fill."""
    pattern = shading.get("w_val", "clear")
    color = shading.get("w_color" if pattern == "solid" else "w_fill", "auto")
    if pattern not in {"clear", "nil", "solid"}:
        return ""
    if len(color) == 6:
        return color.upper()
    if pattern == "solid":  # the automatic colour of a pattern is black
        return "" if shading.get("w_themeColor") else _BLACK
    return "" if shading.get("w_themeFill") else None


def _properties(element: Element | None) -> Properties:
    return {} if element is None else {child.tag: child for child in element}


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


def _is_hidden(properties: Properties, background: str | None) -> bool:
    size = properties.get("w_sz")
    half_points = "" if size is None else size.get("w_val", "")
    if _is_set(properties, "w_vanish") or (
        half_points.isdecimal() and int(half_points) <= _SMALLEST_HALF_POINTS
    ):
        return True
    color = properties.get("w_color")
    if color is None:
        return False
    value = color.get("w_val", "auto")
    if value == "auto" and color.get("w_themeColor") in {"background1", "light1"}:
        value = _WHITE
    return _is_same(value, _run_background(properties, background))


def _run_background(properties: Properties, background: str | None) -> str | None:
    highlight = properties.get("w_highlight")
    if highlight is not None and (name := highlight.get("w_val", "none")) != "none":
        return _HIGHLIGHTS.get(name)
    shading = properties.get("w_shd")
    own = None if shading is None else background_of(shading)
    return background if own is None else own


def _is_same(color: str, background: str | None) -> bool:
    """Return whether two colours, RRGGBB, cannot be told apart."""
    if not background or len(color) != 6:
        return False
    try:
        pairs = zip(bytes.fromhex(color), bytes.fromhex(background), strict=True)
        return all(abs(first - second) <= _SAME_COLOR for first, second in pairs)
    except ValueError:
        return False
