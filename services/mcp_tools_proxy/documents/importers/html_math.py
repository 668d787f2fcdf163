"""Reads formulas of web pages once, as TeX where the page has it: MathML, KaTeX, MathJax."""

import re
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.html_sheet import StyleSheet
from mcp_tools_proxy.documents.importers.html_styles import Appearance, appearance

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_DRAWN = frozenset(
    {
        "MathJax",
        "MathJax_Display",
        "MathJax_Preview",
        "MathJax_CHTML",
        "MathJax_SVG",
        "MathJax_SVG_Display",
        "MJX_Assistive_MathML",
    }
)
_CONTAINERS = frozenset({"katex", "mwe-math-element", "katex-display"})
_SCRIPT = 'script[type^="math/"]'
_MATHJAX = 'script[src*="mathjax" i], [class^="MathJax"]'
"""The program that shows such scripts."""

_DISPLAY_STYLE = re.compile(r"\{\\(?:displaystyle|textstyle)\s*(.*)\}", re.DOTALL)
_WORD = re.compile(
    r"\\(?:begin|end|color|textcolor)\s*\{[a-zA-Z*]{0,20}\}|\\[a-zA-Z]+|([^\W\d_]{3,})"
)
"""Words of TeX, without commands."""

MAX_DEPTH = 50


class MathReader:
    """Finds the formulas of one page."""

    def __init__(self, tree: "LexborHTMLParser", styles: StyleSheet) -> None:
        self._has_scripts = (
            tree.css_first(_SCRIPT) is not None and tree.css_first(_MATHJAX) is not None
        )
        self._styles = styles

    def read(self, node: "LexborNode", tag: str, seen: Appearance) -> str | None:
        """Return the formula of an element; "" if it repeats one, None if it is not a formula."""
        if tag == "math":
            return self._formula(node, seen)
        if tag == "mjx-container":
            found = node.css_first("math")
            return self._formula(found, seen) if found is not None else None
        if tag == "script":
            kind = node.attributes.get("type") or ""
            if self._has_scripts and kind.startswith("math/tex"):
                return tex(node.text())
            return None
        if tag not in {"span", "div"}:
            return None
        classes = (node.attributes.get("class") or "").split()
        if self._has_scripts and not _DRAWN.isdisjoint(classes):
            return ""
        if not _CONTAINERS.isdisjoint(classes) and (found := node.css_first("math")) is not None:
            return self._formula(found, seen)
        return None

    def _formula(self, math: "LexborNode", seen: Appearance) -> str:
        """Return MathML as TeX if it has it with the same words, otherwise as its text."""
        shown = " ".join(self._linear(math, MAX_DEPTH, seen).split())
        letters = "".join(filter(str.isalnum, shown)).casefold()
        for annotation in math.css("annotation"):
            is_tex = "tex" in (annotation.attributes.get("encoding") or "").lower()
            if is_tex and _has_only(annotation.text(), letters):
                return tex(annotation.text())
        alternative = math.attributes.get("alttext") or ""
        return tex(alternative) if alternative and _has_only(alternative, letters) else shown

    def _linear(self, node: "LexborNode", depth: int, seen: Appearance) -> str:
        """Return MathML as text in the order of reading, such as ``(a+b)/2`` and ``x^2``."""
        if depth == 0:
            return "" if seen.is_hidden else node.text() or ""
        if node.is_text_node:
            return "" if seen.is_hidden else (node.text_content or "").strip()
        attributes = node.attributes
        declared = self._styles.declarations(node, attributes.get("style"))
        seen = appearance(seen, declared, attributes)
        parts: list[str] = []
        child = node.first_child
        while child is not None:
            if child.is_text_node or child.tag not in _NOT_SHOWN:
                part = self._linear(child, depth - 1, seen)
                if part or not child.is_text_node:
                    parts.append(part)
            child = child.next
        return _joined(node.tag or "", parts)


_NOT_SHOWN = frozenset({"annotation", "annotation-xml", "mphantom"})


def _has_only(formula: str, letters: str) -> bool:
    """Return whether the words of TeX are among the letters that a formula shows."""
    words = filter(None, _WORD.findall(formula))
    return all(word.casefold() in letters for word in words)


def tex(text: str) -> str:
    """Return TeX on one line."""
    text = " ".join(text.split())
    found = _DISPLAY_STYLE.fullmatch(text)
    return found[1].strip() if found else text


def _joined(tag: str, parts: list[str]) -> str:
    if tag == "msqrt":
        return f"√{_grouped(''.join(parts))}"
    if tag == "mo" and parts[:1] and parts[0] in _SPACED_OPERATORS:
        return f" {parts[0]} "
    if pattern := _PATTERNS.get((tag, len(parts))):
        return pattern.format(*map(_grouped, parts), *parts[:1])
    return _SEPARATORS.get(tag, "").join(parts)


_SPACED_OPERATORS = frozenset("=<>≤≥+−±≈≠")

_SEPARATORS = {"mtr": ", ", "mtable": "; "}

_PATTERNS = {
    ("mfrac", 2): "{0}/{1}",
    ("msup", 2): "{2}^{1}",
    ("mover", 2): "{2}^{1}",
    ("msub", 2): "{2}_{1}",
    ("munder", 2): "{2}_{1}",
    ("msubsup", 3): "{3}_{1}^{2}",
    ("munderover", 3): "{3}_{1}^{2}",
    ("mroot", 2): "{0}^(1/{1})",
}
"""How two-dimensional parts are written; the number after the last part is the first, ungrouped."""


def _grouped(part: str) -> str:
    part = part.strip()
    return part if re.fullmatch(r"[\w.]+", part) else f"({part})"
