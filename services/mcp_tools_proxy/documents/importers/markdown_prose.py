"""Reads the blocks of Markdown, and edits its text outside code."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

MASK = "\0"
"""Placeholder of each character of code; cleaned text has none."""

Edit = tuple[int, int, str]
"""The start and end of a part, and its replacement."""

_INLINE = re.compile(r"(?P<ticks>`+)|\\.|(?P<comment><!--)|</?[A-Za-z][^<>]*+>", re.DOTALL)
_BLANK_LINE = re.compile(r"\n[ \t]*(?=\n)")


class LinkDefinition(NamedTuple):
    """A definition of a link: its place in the text, its label and title."""

    start: int
    end: int
    label: str
    title: str


class _OpenBlock(list[Token]):
    """The tokens of the top-level block that is being parsed; complete blocks are handed on.

    All tokens of a million headings took 1.4 GB.
    """

    def __init__(self, complete: Callable[[list[Token]], None]) -> None:
        super().__init__()
        self._complete = complete

    def append(self, token: Token) -> None:
        """Add a token; the first one of another block completes the last block."""
        if self and token.level == 0 and token.nesting >= 0:
            self._complete(self)
            self.clear()
        super().append(token)


class MarkdownBlocks:
    """The top-level blocks of Markdown, read one at a time."""

    def __init__(self, text: str) -> None:
        self.parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("inline")
        self.references: dict[str, object] = {}
        """The definitions of links, when all blocks are read."""
        self._text = text
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def read(self, complete: Callable[[list[Token]], None]) -> None:
        """Call a function with the tokens of each block."""
        tokens = _OpenBlock(complete)
        self.parser.block.parse(self._text, self.parser, self.references, tokens)
        if tokens:
            complete(tokens)

    def span(self, token: Token) -> tuple[int, int]:
        """Return the start and end of a block in the text."""
        first, last = token.map or (0, 0)
        return self._starts[first], min(self._starts[last], len(self._text))

    def definitions(self) -> Iterator[LinkDefinition]:
        """Yield the definitions of links, in order, when all blocks are read."""
        known = self.references.get("references")
        again = self.references.get("duplicate_refs")
        found = [(label, it) for label, it in (known if isinstance(known, dict) else {}).items()]
        found += [(it["label"], it) for it in (again if isinstance(again, list) else [])]
        for label, it in sorted(found, key=lambda it: it[1]["map"]):
            first, last = it["map"]
            start = self._text.find("[", self._starts[first])
            end = min(self._starts[last], len(self._text))
            yield LinkDefinition(start, end, label, it["title"] or "")

    @staticmethod
    def label(text: str) -> str:
        """Return a label as definitions have it."""
        return normalizeReference(text)


class MarkdownProse:
    """Markdown that is being edited."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def prose(self) -> str:
        """The text with its code masked, of the same length."""
        return self._edited(self.text, ((*span, None) for span in _code_spans(self.text)))

    def edit(self, edits: Iterable[Edit]) -> None:
        """Replace parts of the prose, in ascending order; overlapping ones are left out."""
        kept = list(edits)
        self.text, self.prose = self._edited(self.text, kept), self._edited(self.prose, kept)

    @staticmethod
    def _edited(text: str, edits: Iterable[tuple[int, int, str | None]]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, new in edits:
            if start >= at:
                parts += (text[at:start], MASK * (end - start) if new is None else new)
                at = end
        return "".join((*parts, text[at:]))


def _code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that are code, in order."""
    at = 0
    for start, end in _code_blocks(text):
        yield from ((at + first, at + last) for first, last in _inline_code(text[at:start]))
        yield start, end
        at = end
    yield from ((at + first, at + last) for first, last in _inline_code(text[at:]))


def _code_blocks(text: str) -> list[tuple[int, int]]:
    if "```" not in text and "~~~" not in text and "    " not in text and "\t" not in text:
        return []
    found: list[tuple[int, int]] = []
    blocks = MarkdownBlocks(text)

    def add(tokens: list[Token]) -> None:
        code = (it for it in tokens if it.type in {"fence", "code_block"} and it.map)
        found.extend(map(blocks.span, code))

    blocks.read(add)
    return found


def _inline_code(text: str) -> Iterator[tuple[int, int]]:
    """Yield code within paragraphs; what starts first wins, code or HTML."""
    if "`" not in text:
        return
    ends = [it.start() for it in _BLANK_LINE.finditer(text)]
    # searching the end of each run of backticks took 48 s for 1 MB of different lengths
    runs: defaultdict[int, list[int]] = defaultdict(list)
    for run in re.finditer("`+", text):
        runs[len(run[0])].append(run.start())
    last_comment = text.rfind("-->")
    at = 0
    while found := _INLINE.search(text, at):
        at = found.end()
        if ticks := found["ticks"]:
            same = runs[len(ticks)]
            after = bisect_right(same, found.start())
            paragraph = bisect_right(ends, found.start())
            limit = ends[paragraph] if paragraph < len(ends) else len(text)
            if after < len(same) and same[after] < limit:
                at = same[after] + len(ticks)
                yield found.start(), at
        elif found["comment"] and at <= last_comment:
            at = text.index("-->", at) + 3
