"""The marks within a block of Markdown: emphasis, links, code, tags, entities, escapes.

In doubt, bold and italic marks count as markup, because importers write them without regard to the
letters around them.
"""

import html
import re
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

from mcp_tools_proxy.documents.level_text import scripted

Edit = tuple[int, int, str]
"""A part of a text and its replacement."""

_MAX_OPEN = 64
"""Open brackets, and bold or italic marks, that are considered in one block."""

_BLOCK_TAGS = (
    "address article aside blockquote body br caption center col colgroup dd details dialog dir div"
    " dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li"
    " main menu nav ol optgroup option p section summary table tbody td tfoot th thead title tr ul"
)
_INLINE_TAGS = (
    "a abbr acronym audio b base basefont bdi bdo big button canvas cite code data datalist del dfn"
    " em font frame iframe i img input ins kbd label link map mark meta noscript object output"
    " param picture pre progress q rp rt ruby s samp small source span strike strong sub sup svg"
    " time tt u var video wbr"
)
_ARE_BLOCKS = frozenset(_BLOCK_TAGS.split())

_TOKEN = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~\n])"
    r"|(?P<code>`++)"
    r"|<(?P<address>(?:https?|ftp|mailto):[^<>\s]*+|[\w.+-]++@[\w.-]++)>"
    rf"|</?(?P<tag>{'|'.join((*_BLOCK_TAGS.split(), *_INLINE_TAGS.split()))})(?:[\s/][^<>]*+)?>"
    r"|(?P<comment><!--)"
    r"|(?P<opening>!?\[)"
    r"|(?P<closing>\])"
    r"|(?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
    r"|(?P<emphasis>\*++|_++|~~++)",
    re.IGNORECASE,
)
_CODE = re.compile("`++")
_TARGET = re.compile(
    r"\(\s*+(?:<[^<>\n]*+>|(?:[^\s()<>\\]|\\.|\((?:[^\s()\\]|\\.)*+\))*+)"
    r"(?:\s++(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\((?:[^()\\]|\\.)*+\)))?\s*+\)",
    re.DOTALL,
)
_MAX_TARGET = 4_000
"""Characters of a link's target: "](" repeated would be scanned to the end each time."""

_REFERENCE = re.compile(r"\[(?P<label>[^\[\]]{0,200}+)\]")
_SCRIPT = re.compile(r"<(?P<tag>su[bp])>(?P<content>[^<>\n]{1,40}+)</(?P=tag)>", re.IGNORECASE)
_ORDINAL = re.compile(r"st|nd|rd|th|d|e|er|re|ère|ème|es|os?|as?|º|ª|tm|sm|r", re.IGNORECASE)


def with_scripts(text: str) -> str:
    """Return a text with ``^3`` and ``_3`` in place of the tags of superscripts and subscripts."""
    return _SCRIPT.sub(_script, text)


def _script(found: re.Match[str]) -> str:
    content = html.unescape(found["content"].strip())
    if _ORDINAL.fullmatch(content):
        return content
    return scripted("^" if found["tag"].lower() == "sup" else "_", content)


class _MarkRun:
    """A run of ``*``, ``_`` or ``~`` that may open or close emphasis."""

    __slots__ = ("can_close", "can_open", "end", "length", "mark", "start")

    def __init__(self, text: str, start: int, end: int) -> None:
        self.start, self.end, self.mark = start, end, text[start]
        self.length = end - start
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        self.can_open = not after.isspace()
        self.can_close = not before.isspace()
        if self.mark == "_":  # within a word it is a letter: snake_case
            is_word_before = before.isalnum()
            is_word_after = after.isalnum()
            self.can_open &= not is_word_before
            self.can_close &= not is_word_after


class InlineMarks:
    """One scan of a block; ``edits`` are in no order. Takes linear time."""

    def __init__(self, text: str, start: int, end: int, labels: Collection[str]) -> None:
        """``labels`` are those of the links defined in the text (``folded_label``)."""
        self.edits: list[Edit] = []
        self._text, self._start, self._end = text, start, end
        self._labels = labels
        self._openings: list[tuple[int, int]] = []
        self._runs: list[_MarkRun] = []
        self._code: list[tuple[int, int]] | None = None
        self._comment_end = 0
        place = start
        while found := _TOKEN.search(text, place, end):
            place = self._READERS[str(found.lastgroup)](self, found)
        if len(self._runs) > 1:
            self._pair()

    def _hide(self, start: int, end: int) -> None:
        self.edits.append((start, end, ""))

    def _read_escape(self, found: re.Match[str]) -> int:
        self._hide(found.start(), found.start() + 1)
        return found.end()

    def _read_emphasis(self, found: re.Match[str]) -> int:
        self._runs.append(_MarkRun(self._text, found.start(), found.end()))
        return found.end()

    def _read_opening(self, found: re.Match[str]) -> int:
        self._openings.append(found.span())
        del self._openings[:-_MAX_OPEN]
        return found.end()

    def _read_closing(self, found: re.Match[str]) -> int:
        """Hide the marks of a link, reference or footnote mark."""
        if not self._openings:
            return found.end()
        text, (start, inside) = self._text, self._openings.pop()
        closing, after_label = found.span()
        limit = min(self._end, after_label + _MAX_TARGET)
        if target := _TARGET.match(text, after_label, limit):
            after = target.end()
        elif text[inside] == "^" and closing - inside <= _MAX_OPEN:
            self._hide(start, after_label)
            return after_label
        else:
            reference = _REFERENCE.match(text, after_label, limit) if self._labels else None
            label = (reference and reference["label"]) or text[inside:closing][:_MAX_TARGET]
            if folded_label(label) not in self._labels:
                return after_label
            after = after_label if reference is None else reference.end()
        self._hide(start, inside)
        self._hide(closing, after)
        return after

    def _read_code(self, found: re.Match[str]) -> int:
        """Hide the marks of a code span."""
        start, end = found.span()
        if self._code is None:
            self._code = [it.span() for it in _CODE.finditer(self._text, self._start, self._end)]
            self._code.reverse()
        code = self._code
        while code and code[-1][0] <= start:
            code.pop()
        for first, last in code[: -_MAX_OPEN - 1 : -1]:
            if last - first == end - start:
                self._hide(start, end)
                self._hide(first, last)
                return last
        return end

    def _read_comment(self, found: re.Match[str]) -> int:
        if -1 < self._comment_end < found.end():
            self._comment_end = self._text.find("-->", found.end(), self._end)
        if self._comment_end < 0:
            return found.end()
        end = self._comment_end + len("-->")
        self._hide(found.start(), end)
        return end

    def _read_tag(self, found: re.Match[str]) -> int:
        (start, end), tag = found.span(), found["tag"].lower()
        if tag in _ARE_BLOCKS:
            self.edits.append((start, end, "\n" if tag in {"br", "p", "tr", "li"} else " "))
            return end
        script = _SCRIPT.match(self._text, start, self._end) if tag in {"sup", "sub"} else None
        if script is None:
            self._hide(start, end)
            return end
        self.edits.append((start, script.end(), _script(script)))
        return script.end()

    def _read_address(self, found: re.Match[str]) -> int:
        self._hide(found.start(), found.start() + 1)
        self._hide(found.end() - 1, found.end())
        return found.end()

    def _read_entity(self, found: re.Match[str]) -> int:
        new = html.unescape(found[0])
        if new != found[0]:
            self.edits.append((*found.span(), new))
        return found.end()

    def _pair(self) -> None:
        """Hide the marks of bold, italic and struck text, in pairs of runs (CommonMark §6.2)."""
        opened: list[_MarkRun] = []
        for run in self._runs:
            place = len(opened) - 1
            while run.can_close and place >= 0 and run.start < run.end:
                other = opened[place]
                is_odd = (run.can_open or other.can_close) and (other.length + run.length) % 3 == 0
                if other.mark != run.mark or (is_odd and run.length % 3):
                    place -= 1
                    continue
                used = min(other.end - other.start, run.end - run.start, 2)
                self._hide(other.end - used, other.end)
                self._hide(run.start, run.start + used)
                other.end -= used
                run.start += used
                del opened[place + 1 :]
                if other.start == other.end:
                    opened.pop()
                    place -= 1
            if run.can_open and run.start < run.end:
                opened.append(run)
                del opened[:-_MAX_OPEN]

    _READERS: ClassVar[Mapping[str, Callable[["InlineMarks", re.Match[str]], int]]] = {
        "escaped": _read_escape,
        "emphasis": _read_emphasis,
        "opening": _read_opening,
        "closing": _read_closing,
        "code": _read_code,
        "comment": _read_comment,
        "tag": _read_tag,
        "address": _read_address,
        "entity": _read_entity,
    }


def folded_label(label: str) -> str:
    """Return the label of a link in the form in which labels are compared."""
    return " ".join(label.split()).casefold()
