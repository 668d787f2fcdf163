"""Finds text of web pages that readers cannot see, by styles of elements and the style sheet.

Handles display, visibility, content-visibility, opacity, filter: opacity(), font-size, zoom,
scale, moves, positions off the page, clip, clip-path, mask, boxes without area, and text in the
colour behind it; style sheets with nesting, media, var() and specificity. Text that is hidden only
by the layout stays: behind or outside of other boxes, in pictures, masks and other filters.
External style sheets are not fetched, so their rules hide nothing.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.css_colours import Colour, parse_colour

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

MAX_RULES = 3_000
"""Rules of a style sheet that are applied; each examines every element."""

MAX_MATCHES = 2_000_000
"""Pairs of a rule and an element; each takes 10 µs."""

MAX_SIBLING_STEPS = 4_000_000_000
"""Steps between siblings that all selectors may need: 20 s. 500 rules with
``:nth-last-child(2n of p)`` over 8,000 paragraphs took over two minutes."""

ALMOST_SAME = 10
"""Difference of two colours, of 255 in each part, that nobody can see."""

LEAST_OPACITY = 0.05
LEAST_SCALE = 0.05

FAR_OFF_PX = 500

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))")
_NO_FONT = re.compile(r"(?:[a-z]+\s+)*0(?:px|pt|r?em|%)?[\s/]")
_SIZE = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))(px|pt|r?em|ex|ch|%|vw|vh|in|cm|mm|pc)?")
_PX = {"pt": 1.33, "em": 16, "rem": 16, "ex": 8, "ch": 8, "in": 96, "cm": 38, "mm": 3.8, "pc": 16}
_SPECIFIC = (
    re.compile(r"#[\w-]+"),
    re.compile(r"\.[\w-]+|\[[^\]]*\]|:[\w-]+"),
    re.compile(r"\b\w"),
)
_RELEVANT = re.compile(
    r"--|display|visibility|opacity|font|color|background|position|left|top|right|bottom|inset|indent"
    r"|clip|transform|overflow|zoom|scale|translate|mask|margin|vertical-align"
)

_KEYWORDS = {
    "display": re.compile(
        r"(?:none|block|inline|flow|flex|grid|table|list-item|contents|run-in|ruby|math|-webkit-|var\("
        r"|inherit|initial|unset|revert)"
    ),
    "visibility": re.compile(
        r"(?:visible|hidden|collapse|var\(|inherit|initial|unset|revert)(?![\w-])|revert-layer"
    ),
}
_AMONG_SIBLINGS = re.compile(r"~(?!=)|:(?:nth-|has\(|\w+-of-type)")
"""Selectors for which each element examines its siblings or their contents."""

_WHITE = (255, 255, 255)
_FOREIGN_STYLES = 'link[rel~="stylesheet" i]'
_BETWEEN_SELECTORS = re.compile(r",(?![^(]*\))")
_MEDIA = re.compile(r"\((min|max)-width:([\d.]+)(px|r?em)\)")
_SCHEME = re.compile(r"\(prefers-color-scheme:light\)")
_WINDOW_PX = 1280
"""Width of the window for which media rules are applied."""

_MOST_SELECTOR_CHARS = 2_000
"""Selectors of nested rules grow with each level."""

_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,((?:[^()]|\((?:[^()]|\([^()]*\))*\))*))?\)")
_MOST_VARIABLES = 500
_MOST_VALUE_CHARS = 1_000
"""Limits of variables, which can multiply each other."""

NO_DECLARATIONS: Mapping[str, str] = {}

_BLOCK = ("block", "flex", "grid", "list-item", "table", "flow-root", "table-row")


class Appearance(NamedTuple):
    """The inherited styles that decide whether text is visible."""

    removed: bool = False
    invisible: bool = False
    tiny: bool = False
    opacity: float = 1.0
    colour: Colour | None = (0, 0, 0)
    fill: str = ""
    """The colour that replaces ``colour``, if it is stated."""
    background: Colour | None = _WHITE
    """None if it is a picture or a gradient."""
    variables: Mapping[str, str] = NO_DECLARATIONS

    @property
    def is_hidden(self) -> bool:
        """Whether text of this appearance cannot be seen."""
        return (
            self.removed
            or self.invisible
            or self.tiny
            or self.opacity <= LEAST_OPACITY
            or self._has_own_background
        )

    @property
    def _has_own_background(self) -> bool:
        colour = parse_colour(self.fill, self.background) if self.fill else self.colour
        if colour is None or self.background is None:
            return False
        return all(
            abs(one - other) <= ALMOST_SAME
            for one, other in zip(colour, self.background, strict=True)
        )


class StyleSheet:
    """The rules of a page's style elements, by element."""

    def __init__(self, tree: "LexborHTMLParser") -> None:
        self._rules: dict[int, list[tuple[tuple[int, ...], Mapping[str, str]]]] = {}
        self.background = None if tree.css_first(_FOREIGN_STYLES) is not None else _WHITE
        """Of a page with style sheets of its own only; it is unknown with others."""
        found = tree.css("style")
        text = "\n".join(
            element.text()
            for element in found
            if _shows_media(element.attributes.get("media") or "all")
        )
        rules = [rule for rule in _rules(text) if _RELEVANT.search(rule[1])][:MAX_RULES]
        matches = 0
        self._check_siblings(tree, (selectors for selectors, _ in rules))
        for order, (selectors, body) in enumerate(rules):
            declarations = parse_declarations(body)
            for selector in _BETWEEN_SELECTORS.split(selectors):
                matches += self._add(tree, selector, declarations, order)
                if matches > MAX_MATCHES:
                    return

    def _check_siblings(self, tree: "LexborHTMLParser", selectors: Iterable[str]) -> None:
        """Raise ImportFailed for selectors that take quadratic time in this page.

        Without them, text that they hide would be read.
        """
        costly = sum(len(_AMONG_SIBLINGS.findall(it)) for it in selectors)
        if not costly:
            return
        nodes = tree.css("*")
        children = Counter(node.parent.mem_id for node in nodes if node.parent is not None)
        if costly * sum(count * count for count in children.values()) > MAX_SIBLING_STEPS:
            raise ImportFailed(
                "has style rules that would take too long to apply: save it as PDF or text"
            )

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
        if rules is None and "!" not in (style or ""):
            return parse_declarations(style) if style else NO_DECLARATIONS
        merged: dict[str, str] = {}
        important: dict[str, str] = {}
        own = [parse_declarations(style)] if style else []
        for declarations in (
            *(rule for _, rule in sorted(rules or (), key=lambda it: it[0])),
            *own,
        ):
            for name, value in declarations.items():
                plain, mark, _ = value.partition("!")
                (important if mark else merged)[name] = plain.strip()
        return merged | important


class _StyleRule(NamedTuple):
    """An open rule or block of rules; ``selector`` is None if it does not apply."""

    number: int
    selector: str | None
    declarations: list[str]


def _rules(text: str) -> list[tuple[str, str]]:
    """Return selectors and declarations; those of other media than a wide screen are left out."""
    text = _COMMENT.sub("", text)
    opened = [_StyleRule(0, "", [])]
    rules: list[_StyleRule] = []
    at = 0
    for found in re.finditer(r"[{};]|\Z", text):
        part = text[at : found.start()].strip()
        at = found.end()
        if found[0] == "{":
            opened.append(_StyleRule(found.start(), _inner_selector(part, opened[-1].selector), []))
            rules.append(opened[-1])
            continue
        if part:
            opened[-1].declarations.append(part)
        if found[0] == "}" and len(opened) > 1:
            opened.pop()
    return [(it.selector, ";".join(it.declarations)) for it in rules if it.selector]


def _inner_selector(head: str, outer: str | None) -> str | None:
    """Return the selector of a rule or block within another; "" is that of the style sheet."""
    if outer is None or len(outer) * (1 + head.count(",") + head.count("&")) > _MOST_SELECTOR_CHARS:
        return None
    if head.startswith("@media"):
        return outer if _shows_media(head.removeprefix("@media")) else None
    if head.startswith("@"):
        return outer if head.startswith(("@supports", "@layer", "@scope")) else None
    if not outer:
        return head or None
    parent = f":is({outer})"
    return ",".join(
        it.replace("&", parent) if "&" in it else f"{parent} {it.strip()}"
        for it in _BETWEEN_SELECTORS.split(head)
    )


def _shows_media(queries: str) -> bool:
    """Return whether a wide screen with light colours is among some media."""
    return any(map(_is_shown, re.sub(r"\s", "", queries.lower()).split(",")))


def _is_shown(query: str) -> bool:
    if query.startswith("not"):
        return re.fullmatch(r"not(?:print|speech)", query) is not None
    for found in _MEDIA.finditer(query):
        width = float(found[2]) * (1 if found[3] == "px" else _PX["em"])
        if (width > _WINDOW_PX) == (found[1] == "min"):
            return False
    others = _SCHEME.sub("", _MEDIA.sub("", query))
    return re.fullmatch(r"(?:only)?(?:screen|all)?(?:and)*", others) is not None


def parse_declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style attribute, in lower case."""
    if "\\" in style:
        style = _ESCAPE.sub(_unescape, style)
    if "/*" in style:
        style = _COMMENT.sub("", style)
    found: dict[str, str] = {}
    for part in style.lower().split(";"):
        name, value = (it.strip() for it in part.partition(":")[::2])
        if not value or (name in _KEYWORDS and _KEYWORDS[name].match(value) is None):
            continue  # browsers ignore a value that they do not know
        if "!" in value or "!" not in found.get(name, ""):
            found[name] = value
    return found


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
    variables = _variables(values, inherited)
    values = {name: _substituted(value, variables) for name, value in values.items()}
    visibility = values.get("visibility")
    invisible = inherited.invisible
    if visibility:
        invisible = visibility in {"hidden", "collapse"}
    background = _background(values, attributes, inherited)
    return Appearance(
        removed=inherited.removed or _has_hidden(attributes, values) or _is_removed(values),
        invisible=invisible,
        tiny=_is_tiny(inherited, values),
        opacity=inherited.opacity * _opacity(values),
        colour=_colour(values, attributes, inherited, background),
        fill=_fill(values, inherited),
        background=background,
        variables=variables,
    )


def _variables(values: Mapping[str, str], inherited: Appearance) -> Mapping[str, str]:
    own = {name: value for name, value in values.items() if name.startswith("--")}
    if not own or len(inherited.variables) > _MOST_VARIABLES:
        return inherited.variables
    return {**inherited.variables, **own}


def _substituted(value: str, variables: Mapping[str, str]) -> str:
    """Return a value with the values of variables; an unknown one stays, and is not decided."""
    for _ in range(5):
        if "var(" not in value or len(value) > _MOST_VALUE_CHARS:
            break
        value = _VARIABLE.sub(lambda it: variables.get(it[1], it[2] or it[0]), value)
    return value.strip()


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
            seen = seen._replace(removed=False, invisible=False, tiny=False, opacity=1.0)
    return seen


def script_tag(declared: Mapping[str, str]) -> str:
    """Return "sup" or "sub" for an element that is raised or lowered by its style, or ""."""
    place = declared.get("vertical-align", "").partition("!")[0].strip()
    return {"super": "sup", "sub": "sub"}.get(place, "")


def is_block(declared: Mapping[str, str]) -> bool:
    """Return whether an element is displayed as a block."""
    return declared.get("display", "").startswith(_BLOCK)


def _has_hidden(attributes: Mapping[str, str | None], values: Mapping[str, str]) -> bool:
    """Return whether the attribute ``hidden`` is there, and no display of the page overrides it."""
    if "hidden" not in attributes:
        return False
    is_until_found = (attributes["hidden"] or "").strip().lower() == "until-found"
    return is_until_found or values.get("display", "revert").startswith("revert")


def _is_removed(values: Mapping[str, str]) -> bool:
    return (
        values.get("display") == "none"
        or values.get("content-visibility") == "hidden"
        or _is_scaled_away(values)
        or _is_off_page(values)
        or _is_cut_away(values.get("clip-path", ""))
        or any(_NO_MASK.fullmatch(values.get(name, "")) for name in _MASKS)
        or _has_no_area(values)
    )


def _opacity(values: Mapping[str, str]) -> float:
    stated = [values.get("opacity", ""), *_FILTER.findall(values.get("filter", ""))]
    whole = 1.0
    for opacity in stated:
        if found := _SIZE.fullmatch(opacity.strip()):
            part = float(found[1]) / (100 if found[2] == "%" else 1)
            whole *= min(max(part, 0.0), 1.0)
    return whole


_FILTER = re.compile(r"\bopacity\(([^()]*)\)")
_SCALE = re.compile(r"\bscale(?:3d|x|y)?\(([^()]*)\)")
_MOVE = re.compile(r"\btranslate(?:3d|x|y)?\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_ON_EDGE = re.compile(r"\brotate[xy]\(-?(?:90deg|0?\.25turn)\)")
_MATRIX = re.compile(r"\bmatrix\(([^()]*)\)")
_MASKS = ("mask", "mask-image", "-webkit-mask", "-webkit-mask-image")
_NO_MASK = re.compile(
    r"(?:linear|radial|conic)-gradient\((?:transparent|#0000|rgba?\([^()]*[,/]\s*0%?\)|to|left|right"
    r"|top|bottom|[\d.]+(?:deg|%|px)|[\s,])++\)"
)


def _is_scaled_away(values: Mapping[str, str]) -> bool:
    transform = values.get("transform", "")
    if _ON_EDGE.search(transform):
        return True
    scales = [values.get("scale", ""), *_SCALE.findall(transform)]
    numbers = (_fraction(part) for it in scales for part in re.split(r"[\s,]+", it.strip())[:2])
    if any(number is not None and abs(number) <= LEAST_SCALE for number in numbers):
        return True
    for found in _MATRIX.findall(transform):
        parts = [_fraction(part) or 0.0 for part in found.replace(" ", "").split(",")]
        if len(parts) == 6 and abs(parts[0] * parts[3] - parts[1] * parts[2]) <= LEAST_SCALE**2:
            return True
    zoom = _fraction(values.get("zoom", ""))
    return zoom is not None and 0 < zoom <= LEAST_SCALE


def _fraction(text: str) -> float | None:
    found = _SIZE.fullmatch(text)
    return float(found[1]) / (100 if found[2] == "%" else 1) if found else None


def _is_cut_away(clip_path: str) -> bool:
    if found := re.match(r"inset\(\s*([\d.]+)%", clip_path):
        return float(found[1]) >= 50
    if found := re.fullmatch(r"polygon\((?:\w+\s*,)?([^()]*)\)", clip_path):
        points = [it.split() for it in found[1].split(",")]
        return any(
            len({point[axis] for point in points if len(point) == 2}) == 1 for axis in (0, 1)
        )
    return re.match(r"(?:circle|ellipse)\(\s*0(?:[a-z]+|%)?[\s)]", clip_path) is not None


_CLIPPED = re.compile(r"rect\((?:[01](?:px)?[\s,]*){4}\)")
_SIDES = ("left", "top", "right", "bottom", "inset-inline-start", "inset-block-start")
_OFFSETS = ("text-indent", "margin-left", "margin-top", "margin-inline-start")


def _is_off_page(values: Mapping[str, str]) -> bool:
    is_placed = values.get("position") in {"absolute", "fixed", "relative", "sticky"}
    offsets = (*_OFFSETS, *_SIDES) if is_placed else _OFFSETS
    sizes = [values.get(name, "") for name in offsets]
    if is_placed:
        sizes += values.get("inset", "").split()
    moves = [values.get("translate", ""), *_MOVE.findall(values.get("transform", ""))]
    # a part in % is of the element itself
    sizes += [it for move in moves for it in _BETWEEN_SIZES.split(move) if "%" not in it]
    if any((_px(size) or 0) <= -FAR_OFF_PX for size in sizes):
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


_BETWEEN_SIZES = re.compile(r"[\s,]+(?![^(]*\))")
_TERM = re.compile(
    r"\s*([-+]?)\s*([-+]?[\d.]+)([a-z%]*)(?:\s*\*\s*([-+]?[\d.]+)([a-z%]*))?\s*(?=[-+]|\Z)"
)


def _px(size: str | None) -> float | None:
    """Return a length in pixels; of calc(), sums and products of two numbers."""
    if not size:
        return None
    if found := re.fullmatch(r"calc\(([^()]{1,100})\)", size):
        terms = list(_TERM.finditer(found[1]))
        if "".join(it[0] for it in terms) != found[1]:
            return None
        return sum(_term_px(*it.groups()) for it in terms)
    if (match := _SIZE.fullmatch(size)) is None:
        return None
    return float(match[1]) * _unit_px(match[2])


def _term_px(sign: str, first: str, unit: str, second: str | None, other_unit: str | None) -> float:
    try:
        number = float(first) * float(second or 1)
    except ValueError:
        return 0.0
    return (-number if sign == "-" else number) * _unit_px(unit or other_unit)


def _unit_px(unit: str | None) -> float:
    return 10 if unit in {"%", "vw", "vh"} else _PX.get(unit or "px", 1)


def _colour(
    values: Mapping[str, str],
    attributes: Mapping[str, str | None],
    inherited: Appearance,
    background: Colour | None,
) -> Colour | None:
    attribute = attributes.get("color") or attributes.get("text") or ""
    value = values.get("color") or attribute.lower()
    if not value or value in {"inherit", "currentcolor"}:
        return inherited.colour
    return parse_colour(value, background)


def _fill(values: Mapping[str, str], inherited: Appearance) -> str:
    fill = values.get("-webkit-text-fill-color", "inherit")
    if fill in {"inherit", "unset"}:
        return inherited.fill
    return "" if fill in {"currentcolor", "initial"} else fill


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


_VALUES = re.compile(r"[\w-]+\((?:[^()]|\([^()]*\))*\)|[#\w]+")
