"""Finds text of web pages that readers cannot see, by styles of elements and the style sheet.

External style sheets are not fetched, so their rules hide nothing.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from PIL import ImageColor

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

NOT_TEXT = frozenset(
    {
        *("area", "audio", "base", "canvas", "col", "colgroup", "datalist", "embed", "frame"),
        *("frameset", "head", "iframe", "link", "map", "meta", "noembed", "noframes", "object"),
        *("param", "rp", "script", "source", "style", "title", "track", "video", "wbr"),
    }
)
"""Elements whose content is not text of the page."""

HIDDEN_ELEMENTS = frozenset({"template", "noscript"})

Colour = tuple[int, int, int]

MAX_RULES = 3_000
"""Rules of a style sheet that are applied; each examines every element."""

MAX_MATCHES = 2_000_000
"""Pairs of a rule and an element; each takes 10 µs."""

ALMOST_SAME = 10
"""Difference of two colours, of 255 in each part, that nobody can see."""

LEAST_OPACITY = 0.02

FAR_OFF_PX = 500

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))")
_NO_FONT = re.compile(r"(?:[a-z]+\s+)*0(?:px|pt|r?em|%)?[\s/]")
_NO_SCALE = re.compile(r"scale(?:3d|x|y)?\(0[),\s]")
_SIZE = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))(px|pt|r?em|ex|ch|%|vw|vh|in|cm|mm|pc)?")
_PX = {"pt": 1.33, "em": 16, "rem": 16, "ex": 8, "ch": 8, "in": 96, "cm": 38, "mm": 3.8, "pc": 16}
_SPECIFIC = (
    re.compile(r"#[\w-]+"),
    re.compile(r"\.[\w-]+|\[[^\]]*\]|:[\w-]+"),
    re.compile(r"\b\w"),
)
_RELEVANT = re.compile(
    r"display|visibility|opacity|font|color|background|position|left|top|right|bottom|indent|clip|transform"
)

_WHITE = (255, 255, 255)
_FOREIGN_STYLES = 'link[rel~="stylesheet" i]'
_BETWEEN_SELECTORS = re.compile(r",(?![^(]*\))")
_MEDIA = re.compile(r"\((min|max)-width:(\d+)px\)")
_WINDOW_PX = 1280
"""Width of the window for which media rules are applied."""

NO_DECLARATIONS: Mapping[str, str] = {}

_BLOCK = ("block", "flex", "grid", "list-item", "table", "flow-root", "table-row")


class Appearance(NamedTuple):
    """The inherited styles that decide whether text is visible."""

    removed: bool = False
    invisible: bool = False
    tiny: bool = False
    colour: Colour | None = (0, 0, 0)
    background: Colour | None = (255, 255, 255)
    """None if it is a picture or a gradient."""

    @property
    def is_hidden(self) -> bool:
        """Whether text of this appearance cannot be seen."""
        return self.removed or self.invisible or self.tiny or self._has_own_background

    @property
    def _has_own_background(self) -> bool:
        if self.colour is None or self.background is None:
            return False
        return all(
            abs(one - other) <= ALMOST_SAME
            for one, other in zip(self.colour, self.background, strict=True)
        )


class StyleSheet:
    """The rules of a page's style elements, by element."""

    def __init__(self, tree: "LexborHTMLParser") -> None:
        self._rules: dict[int, list[tuple[tuple[int, ...], Mapping[str, str]]]] = {}
        self.background = None if tree.css_first(_FOREIGN_STYLES) is not None else _WHITE
        """Of a page with style sheets of its own only; it is unknown with others."""
        found = tree.css("style")
        text = "\n".join(element.text() for element in found)
        rules = [rule for rule in _rules(text) if _RELEVANT.search(rule[1])][:MAX_RULES]
        matches = 0
        for order, (selectors, body) in enumerate(rules):
            declarations = parse_declarations(body)
            for selector in _BETWEEN_SELECTORS.split(selectors):
                matches += self._add(tree, selector, declarations, order)
                if matches > MAX_MATCHES:
                    return

    def _add(
        self,
        tree: "LexborHTMLParser",
        selector: str,
        declarations: Mapping[str, str],
        order: int,
    ) -> int:
        from selectolax.lexbor import SelectolaxError  # noqa: PLC0415 - an extra

        if "::" in selector or not selector.strip():
            return 0
        try:
            nodes = tree.css(selector.strip())
        except SelectolaxError:
            return 0
        rule = ((*(len(part.findall(selector)) for part in _SPECIFIC), order), declarations)
        for node in nodes:
            self._rules.setdefault(node.mem_id, []).append(rule)
        return len(nodes)

    def declarations(self, node: "LexborNode", style: str | None) -> Mapping[str, str]:
        """Return the declarations of an element; its own style attribute takes precedence."""
        rules = self._rules.get(node.mem_id)
        if rules is None:
            return parse_declarations(style) if style else NO_DECLARATIONS
        merged: dict[str, str] = {}
        important: dict[str, str] = {}
        own = [parse_declarations(style)] if style else []
        for declarations in (*(rule for _, rule in sorted(rules, key=lambda it: it[0])), *own):
            for name, value in declarations.items():
                plain, mark, _ = value.partition("!")
                (important if mark else merged)[name] = plain.strip()
        return merged | important


def _rules(text: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations; those of other media than a wide screen are left out."""
    text = _COMMENT.sub("", text)
    at = 0
    while (start := text.find("{", at)) >= 0:
        head = text[at:start].rpartition("}")[2].rpartition(";")[2].strip()
        if head.startswith("@"):
            at = start + 1 if _applies(head) else _block_end(text, start)
            continue
        end = text.find("}", start)
        end = len(text) if end < 0 else end
        yield head, text[start + 1 : end]
        at = end + 1


def _applies(head: str) -> bool:
    if not head.startswith("@media"):
        return head.startswith(("@supports", "@layer", "@scope"))
    query = re.sub(r"\s", "", head.removeprefix("@media").lower())
    for found in _MEDIA.finditer(query):
        if (int(found[2]) > _WINDOW_PX) == (found[1] == "min"):
            return False
    return re.fullmatch(r"(?:only)?(?:screen|all)?(?:and)*", _MEDIA.sub("", query)) is not None


def _block_end(text: str, start: int) -> int:
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.end()
    return len(text)


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style attribute, in lower case."""
    if "\\" in style:
        style = _ESCAPE.sub(_unescape, style)
    if "/*" in style:
        style = _COMMENT.sub("", style)
    pairs = (part.partition(":") for part in style.lower().split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs if value}


def _unescape(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[2]
    code = int(found[1], 16)
    return chr(code) if 0 < code <= sys.maxunicode else ""


def appearance(
    inherited: Appearance, declared: Mapping[str, str], attributes: Mapping[str, str | None]
) -> Appearance:
    """Return the appearance of an element's text."""
    if not declared and _STYLES.isdisjoint(attributes):
        return inherited
    values = {name: value.partition("!")[0].strip() for name, value in declared.items()}
    visibility = values.get("visibility")
    invisible = inherited.invisible
    if visibility:
        invisible = visibility in {"hidden", "collapse"}
    return Appearance(
        removed=inherited.removed or "hidden" in attributes or _is_removed(values),
        invisible=invisible,
        tiny=_is_tiny(inherited, values),
        colour=_colour(values, attributes, inherited),
        background=_background(values, attributes, inherited),
    )


_STYLES = frozenset({"background", "bgcolor", "color", "hidden", "text"})


def page_appearance(styles: StyleSheet, tree: "LexborHTMLParser") -> Appearance:
    """Return the appearance of a page's text by its html and body elements.

    What hides the whole page is left out: a script shows the page when it has loaded.
    """
    seen = Appearance(background=styles.background)
    for node in (tree.root, tree.body):
        if node is not None:
            attributes = node.attributes
            seen = appearance(seen, styles.declarations(node, attributes.get("style")), attributes)
            seen = seen._replace(removed=False, invisible=False, tiny=False)
    return seen


def is_block(declared: Mapping[str, str]) -> bool:
    """Return whether an element is displayed as a block."""
    return declared.get("display", "").startswith(_BLOCK)


def _is_removed(values: Mapping[str, str]) -> bool:
    return (
        values.get("display") == "none"
        or _is_transparent(values.get("opacity"))
        or _NO_SCALE.match(values.get("transform", "")) is not None
        or _is_off_page(values)
        or _CUT_AWAY.match(values.get("clip-path", "")) is not None
        or _has_no_area(values)
    )


def _is_transparent(opacity: str | None) -> bool:
    number = None if opacity is None else _number(opacity)
    return number is not None and number <= LEAST_OPACITY


_CUT_AWAY = re.compile(r"inset\((?:50|100)%")
_CLIPPED = re.compile(r"rect\((?:[01](?:px)?[\s,]*){4}\)")
_SIDES = ("left", "top", "right", "bottom")
_OFFSETS = ("text-indent", "margin-left", "margin-top")


def _is_off_page(values: Mapping[str, str]) -> bool:
    is_placed = values.get("position") in {"absolute", "fixed", "relative", "sticky"}
    offsets = (*_OFFSETS, *_SIDES) if is_placed else _OFFSETS
    if any((_px(values.get(name)) or 0) <= -FAR_OFF_PX for name in offsets):
        return True
    return is_placed and _CLIPPED.match(values.get("clip", "")) is not None


def _has_no_area(values: Mapping[str, str]) -> bool:
    if not values.get("overflow", "").startswith(("hidden", "clip")):
        return False
    sizes = (_px(values.get(name)) for name in ("width", "height", "max-height", "max-width"))
    return any(size is not None and 0 <= size <= 1 for size in sizes)


def _is_tiny(inherited: Appearance, values: Mapping[str, str]) -> bool:
    size = values.get("font-size")
    if size is None:
        return inherited.tiny or _NO_FONT.match(values.get("font", "")) is not None
    match = _SIZE.fullmatch(size)
    if match is None:
        return inherited.tiny and size in {"inherit", "smaller", "larger"}
    if float(match[1]) == 0:
        return True
    if match[2] in {"em", "%", "ex", "ch"}:
        return inherited.tiny
    return (_px(size) or 0) <= 1 and match[2] is not None


def _px(size: str | None) -> float | None:
    if not size or (match := _SIZE.fullmatch(size)) is None:
        return None
    unit = match[2] or "px"
    if unit in {"%", "vw", "vh"}:
        return float(match[1]) * 10
    return float(match[1]) * _PX.get(unit, 1)


def _number(value: str) -> float | None:
    match = _SIZE.fullmatch(value)
    return float(match[1]) if match else None


def _colour(
    values: Mapping[str, str], attributes: Mapping[str, str | None], inherited: Appearance
) -> Colour | None:
    attribute = attributes.get("color") or attributes.get("text") or ""
    value = values.get("color") or attribute.lower()
    if not value or value in {"inherit", "currentcolor"}:
        return inherited.colour
    if value == "transparent":
        return inherited.background
    return parse_colour(value, inherited.background)


def _background(
    values: Mapping[str, str], attributes: Mapping[str, str | None], inherited: Appearance
) -> Colour | None:
    value = values.get("background-color") or (attributes.get("bgcolor") or "").lower()
    shorthand = values.get("background", "")
    images = f"{shorthand} {values.get('background-image', '')}"
    if "background" in attributes or "url(" in images or "gradient(" in images:
        return None
    words = [value, *_VALUES.findall(shorthand)]
    for word in words:
        if (colour := parse_colour(word, inherited.background)) is not None:
            return colour
    return None if any("(" in word for word in words) else inherited.background


_VALUES = re.compile(r"[\w-]+\([^)]*\)|[#\w]+")


def parse_colour(value: str, below: Colour | None) -> Colour | None:
    """Return a CSS colour, mixed with the colour below it; None if it is unknown."""
    spaced = re.sub(r"[\s/]+", ",", value.replace(", ", ",").replace(" ,", ","))
    spaced = re.sub(r",+", ",", spaced.replace("(,", "(").replace(",)", ")"))
    alpha = 1.0
    if found := re.fullmatch(r"(rgb|hsl)a?\(([^,]+,[^,]+,[^,]+)(?:,([\d.]+%?))?\)", spaced):
        if found[3]:
            alpha = float(found[3].rstrip("%") or 0) / (100 if found[3].endswith("%") else 1)
        spaced = f"{found[1]}({found[2].replace('deg', '')})"
    elif re.fullmatch(r"[0-9a-f]{6}", spaced):
        spaced = f"#{spaced}"
    try:
        red, green, blue, *rest = ImageColor.getrgb(spaced)
    except ValueError:
        return None
    if rest:
        alpha = rest[0] / 255
    if alpha >= 1:
        return red, green, blue
    if below is None:
        return None
    mixed = (
        round(one * alpha + other * (1 - alpha))
        for one, other in zip((red, green, blue), below, strict=True)
    )
    return tuple(mixed)  # type: ignore[return-value] # three of them
