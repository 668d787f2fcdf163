"""Reads formulas of web pages once, as TeX where the page has it: MathML, KaTeX, MathJax."""

import re
from typing import TYPE_CHECKING

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
_DISPLAY_STYLE = re.compile(r"\{\\(?:displaystyle|textstyle)\s*(.*)\}", re.DOTALL)

MAX_DEPTH = 50


class MathReader:
    """Finds the formulas of one page."""

    def __init__(self, tree: "LexborHTMLParser") -> None:
        self._has_scripts = tree.css_first(_SCRIPT) is not None

    def read(self, node: "LexborNode", tag: str) -> str | None:
        """Return the formula of an element; "" if it repeats one, None if it is not a formula."""
        if tag == "math":
            return math_text(node)
        if tag == "mjx-container":
            found = node.css_first("math")
            return math_text(found) if found is not None else None
        if tag == "script":
            kind = node.attributes.get("type") or ""
            if kind.startswith("math/tex"):
                return tex(node.text())
            return None
        if tag not in {"span", "div"}:
            return None
        classes = (node.attributes.get("class") or "").split()
        if self._has_scripts and not _DRAWN.isdisjoint(classes):
            return ""
        if not _CONTAINERS.isdisjoint(classes) and (found := node.css_first("math")) is not None:
            return math_text(found)
        return None


def tex(text: str) -> str:
    """Return TeX on one line."""
    text = " ".join(text.split())
    found = _DISPLAY_STYLE.fullmatch(text)
    return found[1].strip() if found else text


def math_text(math: "LexborNode") -> str:
    """Return a MathML formula: its TeX if it has it, otherwise its text."""
    for annotation in math.css("annotation"):
        if "tex" in (annotation.attributes.get("encoding") or "").lower():
            return tex(annotation.text())
    if alternative := math.attributes.get("alttext"):
        return tex(alternative)
    return " ".join(_linear(math, MAX_DEPTH).split())


def _linear(node: "LexborNode", depth: int) -> str:
    """Return MathML as text in the order of reading, such as ``(a+b)/2`` and ``x^2``."""
    if depth == 0:
        return node.text() or ""
    if node.is_text_node:
        return (node.text_content or "").strip()
    parts: list[str] = []
    child = node.first_child
    while child is not None:
        if child.is_text_node or child.tag not in {"annotation", "annotation-xml"}:
            part = _linear(child, depth - 1)
            if part or not child.is_text_node:
                parts.append(part)
        child = child.next
    return _joined(node.tag or "", parts)


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
