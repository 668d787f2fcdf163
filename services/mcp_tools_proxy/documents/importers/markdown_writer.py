"""Writes Markdown: blocks such as lists and quotes, and the text of one block from styled runs.

Marks of bold, italics and code are written only at the borders of words, where CommonMark reads
them; those of struck text everywhere. Superscripts and subscripts become ``^`` and ``_``.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from mcp_tools_proxy.documents.importers.superscripts import (
    SuperscriptKind,
    footnote_mark,
    is_power,
    superscript_kind,
)

_OPERAND = re.compile(r"[+\-−–±]?(?:[^\W_]|[.,′'*∗])+")
_CHARGES = frozenset("+-−±")
_NOTE_MARK = re.compile(r"\[(?:\d{1,3}|[a-z*†‡§¶])\]|[†‡§¶]")
_WORDS = re.compile(r"[^\W\d_]{2,}\s+[^\W\d_]{2,}")

_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")
_BREAK = re.compile(r" ?\v ?")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060]")
"""Soft hyphens and marks for line breaks would split words for search."""

_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_STARS = re.compile(r"(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1")
_TILDES = re.compile(r"(~~)(?=[^\s~])([^~\n]*[^\s~])\1")
_OUTER_TILDE, _ESCAPED_TILDE = re.compile(r"\A~|~\Z"), r"\\~"
_LOW_LINES = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_\n]*[^\s_])\1(?!\w)")
_LINE_START = re.compile(r"^(?=#{1,6}(?:\s|$)|>|```|~~~)", re.MULTILINE)
_UNDERLINE = re.compile(r"(?<=\n)(?=(?:=+|-+)[ \t]*(?:\n|$))")

_BASE_CHARS = 40
_AFTER_CHARS = 8


class RunStyle(NamedTuple):
    """The style of a run of text; ``script`` is "^", "_", "note" for a footnote mark, or ""."""

    link: str = ""
    struck: bool = False
    bold: bool = False
    italic: bool = False
    code: bool = False
    script: str = ""
    verbatim: bool = False


PLAIN = RunStyle()

Run = tuple[str, RunStyle]


def render_runs(runs: Sequence[Run], *, can_start_block: bool = True) -> str:
    """Return runs as Markdown; white space is collapsed, ``\\n`` remains only from LINE_BREAK.

    With ``can_start_block``, text that Markdown would read as a heading, quote or fence is escaped.
    """
    text = _styled(_with_fractions(_collapsed(runs)), _LEVELS, "", "").strip()
    if can_start_block:
        text = _UNDERLINE.sub(r"\\", _LINE_START.sub(r"\\", text))
    return text


LINE_BREAK = "\v"
"""A line break within a block."""


def _collapsed(runs: Sequence[Run]) -> list[Run]:
    """Return runs without repeated white space and with escapes; adjacent equal styles merged."""
    kept: list[Run] = []
    last = " "
    for style, group in groupby(runs, key=lambda run: run[1]):
        joined = _INVISIBLE.sub("", "".join(text for text, _ in group))
        text = _BREAK.sub("\n", _SPACES.sub(" ", joined))
        if last in " \n":
            text = text.lstrip(" ")
        if not text:
            continue
        last = text[-1]
        kept.append((text if style.code or style.verbatim else _escaped(text), style))
    return kept


def _with_fractions(runs: list[Run]) -> list[Run]:
    """Return runs with fractions as plain text: 1 1/2 of a raised 1, a line and a lowered 2."""
    kept: list[Run] = []
    for text, style in runs:
        if style.script == "_" and text.isdigit() and len(kept) > 1:
            (above, raised), (line, _) = kept[-2:]
            if raised.script in {"^", "note"} and above.isdigit() and line in {"/", "⁄"}:
                space = " " if len(kept) > 2 and kept[-3][0][-1:].isdigit() else ""
                kept[-2:] = [(f"{space}{above}{line}{text}", raised._replace(script=""))]
                continue
        kept.append((text, style))
    return kept


def _escaped(text: str) -> str:
    text = _TAG_START.sub(r"\\<", text)
    if "*" in text:
        text = _STARS.sub(_escape_pair, text)
    if "~~" in text:
        text = _TILDES.sub(_escape_pair, text)
    if "_" in text:
        text = _LOW_LINES.sub(_escape_pair, text)
    return text


def _escape_pair(found: re.Match[str]) -> str:
    marks = "".join(f"\\{mark}" for mark in found[1])
    return f"{marks}{found[2]}{marks}"


_LEVELS = ("struck", "link", "bold", "italic", "code", "script")


def _styled(runs: Sequence[Run], levels: Sequence[str], before: str, after: str) -> str:
    """Return runs with the marks of ``levels``, between the given texts."""
    if not levels:
        return "".join(text for text, _ in runs)
    if all(style == PLAIN for _, style in runs):
        return "".join(text for text, _ in runs)
    level, *rest = levels
    groups = [
        (value, list(group))
        for value, group in groupby(runs, key=lambda run: getattr(run[1], level))
    ]
    texts = ["".join(text for text, _ in group) for _, group in groups]
    parts: list[str] = []
    for at, (value, group) in enumerate(groups):
        left = texts[at - 1] if at else before
        right = texts[at + 1] if at + 1 < len(texts) else after
        if level == "script":  # the output so far: x_i before ^2, not xi
            left = before[-_BASE_CHARS:] + "".join(parts)[-_BASE_CHARS:]
            if at + 1 < len(groups) and groups[at + 1][0]:
                right = f"{groups[at + 1][0]}{right}"
        inner = _styled(group, rest, left, right)
        parts.append(
            _marked(level, value, inner, left[-_BASE_CHARS:], right[:_AFTER_CHARS])
            if value
            else inner
        )
    return "".join(parts)


def _marked(level: str, value: str | bool, inner: str, before: str, after: str) -> str:
    text = inner.strip()
    if not text:
        return inner
    lead = inner[: len(inner) - len(inner.lstrip())]
    trail = inner[len(inner.rstrip()) :]
    if level == "script":
        return lead + script_text(str(value), text, before if not lead else "", after) + trail
    if level == "link":
        return f"{lead}{_link(text, str(value))}{trail}"
    if level == "struck":  # also within a word, unlike the others: 1~~00~~0 is not 1000
        return f"{lead}~~{_OUTER_TILDE.sub(_ESCAPED_TILDE, text)}~~{trail}"
    splits_word = (not lead and before[-1:].isalnum()) or (not trail and after[:1].isalnum())
    if splits_word or "\n\n" in text:
        return inner
    if level == "code":
        mark = "``" if "`" in text else "`"
        return f"{lead}{mark}{text}{mark}{trail}"
    mark = "**" if level == "bold" else "*"
    return f"{lead}{mark}{text}{mark}{trail}"


def _link(text: str, target: str) -> str:
    if text in {target, target.removeprefix("mailto:"), target.partition("://")[2].rstrip("/")}:
        return text
    if re.search(r"[\s<>()]", target):
        target = re.sub(r"\s", "%20", target).replace("<", "%3C").replace(">", "%3E")
        target = f"<{target}>" if "(" in target or ")" in target else target
    return f"[{text}]({target})"


def script_text(kind: str, text: str, before: str, after: str) -> str:
    """Return a superscript or subscript ("^" or "_") between the texts beside it."""
    base = "" if before[-1:].isspace() else before
    meaning = superscript_kind(text, base, after) if kind == "^" else SuperscriptKind.UNKNOWN
    if meaning is SuperscriptKind.NOTE and is_power(text, base):
        meaning = SuperscriptKind.EXPONENT
    if kind == "note" or meaning is SuperscriptKind.NOTE or _NOTE_MARK.fullmatch(text):
        return footnote_mark(text, base, after) if _has_letters(text) else f"{base and ' '}{text}"
    if meaning is SuperscriptKind.PLAIN or _WORDS.search(text):
        return text
    if not base and meaning is SuperscriptKind.UNKNOWN:
        return text
    if not _has_letters(text) and text not in _CHARGES:
        return text
    is_one = text in _CHARGES or (_OPERAND.fullmatch(text) and not _runs_on(text[-1], after[:1]))
    return f"{kind}{text}" if is_one else f"{kind}({text})"


def _has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))


def _runs_on(last: str, after: str) -> bool:
    return (last.isdigit() and after.isdigit()) or (last.isalpha() and after.isalpha())


MAX_NESTING = 20
"""Nested lists and quotes; deeper ones are written at this depth, as their indentation is n²."""


class ItemGroup:
    """Items without blank lines between them; ``joins`` if nothing separates the first one."""

    def __init__(self, *, joins: bool) -> None:
        self.joins = joins


class _Container:
    """A list item or quote: the start of its first line and of the lines after it."""

    def __init__(self, first: str, rest: str, group: ItemGroup | None = None) -> None:
        self.first = first
        self.rest = rest
        self.group = group
        self.is_new = True


class BlockWriter:
    """Collects blocks; the containers of the current place are a stack."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._containers: list[_Container] = []

    def open_item(self, marker: str, group: ItemGroup) -> None:
        """Start an item of a list, with a marker such as ``-``."""
        self._containers.append(_Container(f"{marker} ", " " * (len(marker) + 1), group))

    def open_quote(self) -> None:
        """Start a quote."""
        self._containers.append(_Container("> ", "> "))

    def close(self) -> None:
        """End the last item or quote."""
        self._containers.pop()

    def write(self, lines: Sequence[str]) -> None:
        """Write one block."""
        first, rest, between, joins = "", "", "", False
        for container in self._containers[:MAX_NESTING]:
            first += container.first if container.is_new else container.rest
            rest += container.rest
            if not container.is_new:
                between = rest
            elif container.group is not None:
                joins = joins or container.group.joins
                container.group.joins = True
            container.is_new = False
        if self._parts:
            self._parts.append("\n" if joins else f"\n{between.rstrip()}\n")
        self._parts.append(first + lines[0])
        self._parts.extend(f"\n{(rest + line).rstrip()}" for line in lines[1:])

    def text(self) -> str:
        """Return the Markdown."""
        return "".join(self._parts)
