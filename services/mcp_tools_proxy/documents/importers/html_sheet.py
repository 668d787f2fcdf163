"""Applies the style sheets of a web page to its elements: nesting, layers, media, specificity.

Style sheets at other addresses are not fetched, so their rules hide nothing.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.css_media import (
    fits_container,
    is_supported,
    shows_media,
)
from mcp_tools_proxy.documents.importers.css_values import (
    css_marks,
    declarations_of,
    parse_declarations,
    split_css,
    unescaped,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_SELECTORS = 3_000
"""Different selectors with names of this page; each examines every element."""

MAX_MATCHES = 2_000_000
"""Pairs of a rule and an element; each takes 10 µs."""

MAX_SIBLING_STEPS = 4_000_000_000
"""Steps between siblings that all selectors may need: 20 s. 500 rules with
``:nth-last-child(2n of p)`` over 8,000 paragraphs took over two minutes."""

NO_DECLARATIONS: Mapping[str, str] = {}

_TOO_MANY = "has style rules that would take too long to apply: save it as PDF or text"
_RELEVANT = re.compile(
    r"--|display|visibility|opacity|font|color|background|position|left|top|right|bottom|inset"
    r"|indent|clip|transform|overflow|contain|zoom|scale|translate|mask|margin|padding|width"
    r"|height|size|vertical-align|fill|stroke|decoration"
)
_AMONG_SIBLINGS = re.compile(r"~(?!=)|:(?:nth-|has\(|\w+-of-type)")
"""Selectors for which each element examines its siblings or their contents."""

_COMMENT_MARKS = re.compile(r"\A(?:\s|<!--|-->)+")
_MOST_SELECTOR_CHARS = 2_000
"""Selectors of nested rules grow with each level."""

_IMPORT = re.compile(
    r"@import\s*(?:url\(\s*)?(?P<quote>[\"']?)(?P<address>.*?)(?P=quote)\s*(?:\)|(?<=[\"']))"
    r"\s*(?P<layer>layer\b(?:\([^()]*\))?)?\s*(?:supports\((?:[^()]|\([^()]*\))*\))?(?P<media>.*)",
    re.DOTALL | re.IGNORECASE,
)
_IS_STYLE = re.compile(r"\s*data:text/css\s*(?:;|\Z)", re.IGNORECASE)
_MAX_IMPORTS = 5
"""Style sheets within the addresses of others."""

_SCOPE = re.compile(r"\s*\(((?:[^()]|\([^()]*\))*)\)")
_NAMES = re.compile(r"[.#]((?:[\w-]|\\[0-9a-fA-F]{1,6}\s?|\\.)+)")
_ATTRIBUTE = re.compile(r"\[[^\[\]\"']*(?:\"[^\"]*\"|'[^']*')?[^\[\]\"']*\]")
_FUNCTION = re.compile(r":([\w-]+)\(([^()]*)\)")
_SPECIFIC = (
    re.compile(r"#[\w-]+"),
    re.compile(r"\.[\w-]+|\[|:[\w-]+"),
    re.compile(r"[\w-]+"),
)

_Specificity = tuple[int, int, int]


class _AppliedRule(NamedTuple):
    """A rule of an element; later layers, then specific selectors, then later rules win."""

    layer: int
    specificity: _Specificity
    order: int
    declarations: Mapping[str, str]


class StyleSheet:
    """The rules of a page's style sheets, by element."""

    def __init__(self, tree: "LexborHTMLParser") -> None:
        self._rules: dict[int, list[_AppliedRule]] = {}
        reader = _StyleReader()
        for element in tree.css("style, link"):
            _read_element(reader, element)
        self.is_whole = not reader.has_foreign
        """Whether no style sheet is at another address."""
        self._apply(tree, reader.rules)

    def _apply(self, tree: "LexborHTMLParser", rules: "Iterable[_StyleRule]") -> None:
        relevant = [
            (it, [one.strip() for one in split_css(it.selector, ",")])
            for it in rules
            if it.selector and any(map(_RELEVANT.search, it.declarations))
        ]
        if not relevant:
            return
        found = _nodes_of(tree, {one for _, selectors in relevant for one in selectors})
        matches = 0
        for order, (rule, selectors) in enumerate(relevant):
            declarations = declarations_of(rule.declarations)
            for selector in filter(found.get, selectors):
                matches += len(found[selector])
                if matches > MAX_MATCHES:
                    raise ImportFailed(_TOO_MANY)
                applied = _AppliedRule(rule.layer, _specificity(selector), order, declarations)
                for node in found[selector]:
                    self._rules.setdefault(node.mem_id, []).append(applied)

    def declarations(self, node: "LexborNode", style: str | None) -> Mapping[str, str]:
        """Return the declarations of an element; its own style attribute takes precedence."""
        rules = self._rules.get(node.mem_id)
        if rules is None and "!" not in (style or ""):
            return parse_declarations(style) if style else NO_DECLARATIONS
        normal = sorted(rules or (), key=itemgetter(0, 1, 2))
        important = sorted(normal, key=lambda it: -it.layer)
        own = [parse_declarations(style)] if style else []
        return {
            **dict(_marked([*(it.declarations for it in normal), *own], "")),
            **dict(_marked([*(it.declarations for it in important), *own], "!")),
        }


def _marked(declarations: Iterable[Mapping[str, str]], mark: str) -> Iterator[tuple[str, str]]:
    """Yield the declarations that are important, or those that are not."""
    for each in declarations:
        for name, value in each.items():
            plain, found, _ = value.partition("!")
            if found == mark:
                yield name, plain.strip()


def _nodes_of(tree: "LexborHTMLParser", selectors: Iterable[str]) -> "dict[str, list[LexborNode]]":
    """Return the elements of selectors. Raises ImportFailed if they take too long."""
    names = _names_of(tree)
    found: dict[str, list[LexborNode]] = {it: [] for it in selectors if _may_match(it, names)}
    if len(found) > MAX_SELECTORS:
        raise ImportFailed(_TOO_MANY)
    _check_siblings(tree, found)
    for selector in found:
        found[selector] = _selected(tree, selector)
    return found


def _selected(tree: "LexborHTMLParser", selector: str) -> "list[LexborNode]":
    from selectolax.lexbor import SelectolaxError  # noqa: PLC0415 - an extra

    with suppress(SelectolaxError):
        return tree.css(selector)
    for pattern, known in _OTHER_SELECTORS:
        selector = pattern.sub(known, selector)
    with suppress(SelectolaxError):
        return tree.css(selector or "*")
    return []


_OTHER_SELECTORS = (
    (re.compile(r":scope\b"), ":root"),
    (re.compile(r":-(?:webkit|moz)-any\(|:matches\("), ":is("),
    (re.compile(r":dir\(\s*ltr\s*\)"), ":not([dir=rtl i] *):not([dir=rtl i])"),
    (re.compile(r":dir\(\s*rtl\s*\)"), ":is([dir=rtl i], [dir=rtl i] *)"),
    (re.compile(r":lang\(\s*[\"']?([\w-]+)[\"']?\s*\)"), r":is([lang|=\1 i], [lang|=\1 i] *)"),
    (re.compile(r":defined\b|:not\(:[\w-]+\)"), ""),
)
"""Selectors that Lexbor does not read, as it reads them; states such as :not(:target) hold."""


def _read_element(reader: "_StyleReader", element: "LexborNode") -> None:
    """Read the style sheet of a style or link element, if it applies to a window."""
    attributes = element.attributes
    if not (reader.is_preferred(attributes) and shows_media(attributes.get("media") or "")):
        return
    if element.tag == "style":
        if (attributes.get("type") or "text/css").strip().lower() == "text/css":
            reader.read(element.text())
        return
    kinds = (attributes.get("rel") or "").lower().split()
    if "stylesheet" in kinds and "alternate" not in kinds and "disabled" not in attributes:
        reader.read_address(attributes.get("href") or "")


def _names_of(tree: "LexborHTMLParser") -> set[str]:
    names: set[str] = set()
    for node in tree.css("[class], [id]"):
        attributes = node.attributes
        names.update((attributes.get("class") or "").lower().split())
        names.add((attributes.get("id") or "").lower())
    return names


def _may_match(selector: str, names: set[str]) -> bool:
    """Return whether a selector could match: its classes and ids are in the page."""
    if not selector or "::" in selector:
        return False
    if len(selector) > _MOST_SELECTOR_CHARS:
        return True
    plain = _ATTRIBUTE.sub("", selector)
    while "(" in plain and (simpler := _FUNCTION.sub("", plain)) != plain:
        plain = simpler
    return all(unescaped(it).lower() in names for it in _NAMES.findall(plain))


def _check_siblings(tree: "LexborHTMLParser", selectors: Iterable[str]) -> None:
    """Raise ImportFailed for selectors that take quadratic time in this page.

    Without them, text that they hide would be read.
    """
    costly = sum(len(_AMONG_SIBLINGS.findall(it)) for it in selectors)
    if not costly:
        return
    nodes = tree.css("*")
    children = Counter(node.parent.mem_id for node in nodes if node.parent is not None)
    if costly * sum(count * count for count in children.values()) > MAX_SIBLING_STEPS:
        raise ImportFailed(_TOO_MANY)


def _specificity(selector: str) -> _Specificity:
    """Return the numbers of ids, of classes and the like, and of elements."""
    selector = unescaped(_ATTRIBUTE.sub("[", selector)) if "[" in selector else selector
    if len(selector) <= _MOST_SELECTOR_CHARS:
        while (simpler := _FUNCTION.sub(_counted, selector)) != selector:
            selector = simpler
    ids, selector = len(_SPECIFIC[0].findall(selector)), _SPECIFIC[0].sub(" ", selector)
    classes, selector = len(_SPECIFIC[1].findall(selector)), _SPECIFIC[1].sub(" ", selector)
    return ids, classes, len(_SPECIFIC[2].findall(selector))


def _counted(found: re.Match[str]) -> str:
    """Return what counts of a function: its most specific argument."""
    name, text = found.groups()
    if name == "where":
        return ""
    if name in {"is", "not", "has", "matches"}:
        return max(text.split(","), key=_specificity)
    return f".x{text.partition(' of ')[2]}" if name.startswith("nth-") else ".x"


_NO_LAYER = 1_000_000
"""Rules outside of layers come after those in layers."""


class _StyleRule(NamedTuple):
    """An open rule or block of rules; ``selector`` is None if it does not apply."""

    selector: str | None
    declarations: list[str]
    layer_name: str = ""
    layer: int = _NO_LAYER


class _StyleReader:
    """Reads style sheets into rules."""

    def __init__(self) -> None:
        self.rules: list[_StyleRule] = []
        self.has_foreign = False
        self._imports = 0
        self._title = ""
        self._layers: dict[str, int] = {}
        self._outside = _StyleRule("", [])
        """The block that contains the rules of the style sheet."""

    def is_preferred(self, attributes: Mapping[str, str | None]) -> bool:
        """Return whether a style sheet has no title or the first one: readers choose others."""
        title = attributes.get("title") or ""
        if title and not self._title and "alternate" not in (attributes.get("rel") or "").lower():
            self._title = title
        return not title or title == self._title

    def read_address(self, address: str) -> None:
        """Read the style sheet in a ``data:`` address; others are not fetched."""
        start, comma, data = address.partition(",")
        if not (comma and start.strip().lower().startswith("data:")):
            self.has_foreign = True
            return
        if not _IS_STYLE.match(start):
            return
        content = unquote_to_bytes(data.partition("#")[0])
        if start.lower().rstrip().endswith(";base64"):
            try:
                content = b64decode(content + b"==")
            except NotBase64:
                return
        self.read(content.decode("utf-8", "replace"))

    def read(self, text: str) -> None:
        """Read the rules of a style sheet, with those of nested and imported ones."""
        opened = [self._outside]
        can_import = True
        for mark, part in _parts(text):
            outer = opened[-1]
            if mark == "{":
                can_import = False
                opened.append(self._inner_rule(_COMMENT_MARKS.sub("", part), outer))
                self.rules.append(opened[-1])
                continue
            if part.startswith("@"):
                self._read_statement(part, outer, can_import=can_import)
            elif part:
                outer.declarations.append(part)
            if mark == "}" and len(opened) > 1:
                opened.pop()

    def _read_statement(self, statement: str, outer: _StyleRule, *, can_import: bool) -> None:
        name, text = _at_rule(statement)
        if name == "@import" and can_import:
            self._import(unescaped(statement), outer)
        elif name == "@layer":
            for layer in text.split(","):
                self._in_layer(outer, layer)

    def _import(self, statement: str, outer: _StyleRule) -> None:
        found = _IMPORT.fullmatch(statement)
        if found is None or self._imports >= _MAX_IMPORTS or not shows_media(found["media"]):
            return
        self._imports += 1
        outside, self._outside = self._outside, outer
        if found["layer"]:
            self._outside = self._in_layer(outer, found["layer"][len("layer") :].strip("() "))
        self.read_address(found["address"])
        self._outside = outside

    def _in_layer(self, outer: _StyleRule, name: str) -> _StyleRule:
        """Return a block in a layer, which is ordered by its first use; "" is a new one."""
        name = f"{outer.layer_name}.{name.strip() or len(self._layers)}"
        layer = self._layers.setdefault(name, len(self._layers))
        return _StyleRule(outer.selector, [], name, layer)

    def _inner_rule(self, head: str, outer: _StyleRule) -> _StyleRule:
        """Return a rule or block in another; a block has its selector: "" in the style sheet."""
        name, condition = _at_rule(head)
        if name == "@layer":
            return self._in_layer(outer, condition)
        return outer._replace(selector=_inner_selector(head, outer.selector), declarations=[])


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the marks ``{};`` of a style sheet, each with the text before it."""
    pieces: list[str] = []
    at = 0
    for found in css_marks(text, nests="(["):
        mark = found[0]
        if not (found["comment"] or mark in "{};"):
            continue
        pieces.append(text[at : found.start()])
        at = found.end()
        if not found["comment"]:
            yield mark, "".join(pieces).strip()
            pieces = []
    yield "", "".join((*pieces, text[at:])).strip()


def _inner_selector(head: str, outer: str | None) -> str | None:
    if outer is None or len(outer) * (1 + head.count(",") + head.count("&")) > _MOST_SELECTOR_CHARS:
        return None
    name, condition = _at_rule(head)
    if name == "@scope" and (scope := _SCOPE.match(condition)):
        head = scope[1]
    elif name:
        return outer if _applies(name, condition) else None
    if not outer:
        return head or None
    parent = f":is({outer})"
    head = head.replace(":scope", "&")
    return ",".join(
        it.replace("&", parent) if "&" in it else f"{parent} {it.strip()}"
        for it in split_css(head, ",")
    )


def _at_rule(head: str) -> tuple[str, str]:
    """Return the name of an at-rule, or "", and the text after it."""
    if not head.startswith("@"):
        return "", ""
    found = re.match(r"@[\w-]+", unescaped(head))
    return (found[0].lower(), unescaped(head)[found.end() :]) if found else ("@", "")


def _applies(name: str, condition: str) -> bool:
    if name == "@media":
        return shows_media(condition)
    if name == "@supports":
        return is_supported(condition)
    if name == "@container":
        return fits_container(condition)
    return name == "@scope"
