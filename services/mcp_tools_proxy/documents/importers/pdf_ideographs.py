"""Letter-spaced Chinese and Japanese characters of a PDF, joined to words."""

import re
from collections.abc import Sequence
from itertools import pairwise

from mcp_tools_proxy.documents.importers.pdf_words import PageWord

_IDEOGRAPH = (
    r"[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
_SPACED = re.compile(rf"[（「『《〈“]?{_IDEOGRAPH}[、。，．：；！？）」』》〉”]?")
_IDEOGRAPHS_APART = re.compile(rf"(?<={_IDEOGRAPH}) (?={_IDEOGRAPH})")
_SPACED_PAIR = re.compile(rf"{_SPACED.pattern}\s{_SPACED.pattern}(?!\S)")

_FEW = 3
"""Spaced characters; two are joined only if their line has no others, like a title."""

_MOST_GAP, _MOST_GAP_OF_TITLE = 1.2, 2.5
"""Gaps in widths of a character; the cells of a table are further apart."""

_MOST_UNEVEN = 0.4


def has_ideographs(text: str) -> bool:
    """Return whether ``text`` has Chinese or Japanese characters with white space around."""
    return not text.isascii() and _SPACED_PAIR.search(text) is not None


def join_ideographs(text: str) -> str:
    """Remove the spaces that OCR writes between Chinese and Japanese characters."""
    return _IDEOGRAPHS_APART.sub("", text)


def join_spaced_characters(line: Sequence[PageWord]) -> None:
    """Glue Chinese and Japanese characters that are spaced evenly, one by one."""
    start = 0
    while start < len(line):
        end = start
        while end < len(line) and _SPACED.fullmatch(line[end].text):
            end += 1
        if end - start >= 2:
            _join(line[start:end], is_title=end - start == len(line))
        start = max(end, start + 1)


def _join(words: Sequence[PageWord], *, is_title: bool) -> None:
    gaps = [
        (second.left - first.right) / max(1.0, first.right - first.left)
        for first, second in pairwise(words)
    ]
    is_short = len(words) <= _FEW + 1 and is_title
    limit = min(_MOST_GAP_OF_TITLE if is_short else _MOST_GAP, min(gaps) + _MOST_UNEVEN)
    if len(words) < _FEW and not is_title:
        return
    for word, gap in zip(words[1:], gaps, strict=True):
        word.is_glued = word.is_glued or gap <= limit
