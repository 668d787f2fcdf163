"""Writes Markdown from formatted text: escapes, emphasis, links, pipe tables."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from mcp_tools_proxy.documents.importers.scripts import spell_script
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_INLINE = re.compile(
    r"""\\(?=[!-/:-@\[-`{-~])      # would escape the next character
    | `
    | (?<!\s)\* | \*(?!\s)         # not "5 * 3"
    | (?<!\w)_+(?=[^\s_])          # not "max_text_bytes"
    | <(?=[a-zA-Z/!?])
    | &(?=\#?\w+;)
    | (?<=\])[(\[]                 # a link
    """,
    re.VERBOSE,
)
_LINE_START = re.compile(
    r"^(?:[#>](?=[\s#>]|$)|[-+*](?=\s|$)|[-*_=](?=(?:\s*[-*_=])*\s*$)|~(?=~~)|\[(?=[^\]]*\]:))",
    re.MULTILINE,
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_LINES = re.compile(r"([\n\f]+)")
_PUNCTUATION_START = re.compile(r"^[\W_]+")
_PUNCTUATION_END = re.compile(r"[\W_]+$")


@dataclass(frozen=True, slots=True)
class TextRun:
    """Text of one format; ``script`` is ``^``, ``_`` or "". ``is_markdown`` text is not escaped."""

    text: str
    is_bold: bool = False
    is_italic: bool = False
    script: str = ""
    link: str = ""
    is_markdown: bool = False


def escape_line_starts(text: str) -> str:
    """Escape marks at the start of a line that would begin a heading, list, quote or rule."""
    return _LINE_START.sub(lambda match: f"\\{match[0]}", text)


def write_inline(runs: Sequence[TextRun]) -> str:
    """Return runs as inline Markdown. A word that is partly bold is one word, and not bold."""
    runs = _with_scripts(runs)
    parts = []
    for link, linked in groupby(runs, key=lambda run: run.link):
        text = _emphasized(list(linked))
        if link and text.strip() and "\f" not in text and "\n" not in text:
            text = _link(text, link)
        parts.append(text)
    return "".join(parts)


def write_plain(runs: Sequence[TextRun]) -> str:
    """Return runs without emphasis, links and escapes."""
    return "".join(run.text for run in _with_scripts(runs))


def write_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a pipe table; the first row is the header. Cells are Markdown.

    A row is padded up to 63 columns, the most that Word has: a table of one row with 100,000
    cells and 100,000 short rows would fill the memory.
    """
    width = min(63, max(map(len, rows), default=0))
    lines = [_row(row, width) for row in rows]
    return [*lines[:1], f"|{' --- |' * max(1, len(rows[0]), width)}", *lines[1:]] if rows else []


def _row(cells: Sequence[str], width: int) -> str:
    shown = [*(" ".join(cell.split()).replace("|", "\\|") for cell in cells)]
    shown += [""] * (width - len(shown))
    return f"| {' | '.join(shown)} |"


def _with_scripts(runs: Sequence[TextRun]) -> list[TextRun]:
    """Merge equal neighbours, and spell superscripts and subscripts."""
    merged = list(_merged(runs))
    spelled: list[TextRun] = []
    before = ""
    for number, run in enumerate(merged):
        text = run.text
        if run.script:
            after = merged[number + 1].text if number + 1 < len(merged) else ""
            text = spell_script(run.script, text, before=before[-80:], after=after)
        spelled.append(_changed(run, text, script=""))
        before = (before[-80:] + text)[-80:]
    return list(_merged(spelled))


def _merged(runs: Iterable[TextRun]) -> Iterable[TextRun]:
    for _, same in groupby(runs, key=_format):
        first, *rest = same
        text = "".join(run.text for run in (first, *rest))
        if text:
            yield _changed(first, text, script=first.script) if rest else first


def _format(run: TextRun) -> tuple[object, ...]:
    return run.is_bold, run.is_italic, run.script, run.link, run.is_markdown


def _changed(run: TextRun, text: str, *, script: str) -> TextRun:
    return TextRun(text, run.is_bold, run.is_italic, script, run.link, run.is_markdown)


def _emphasized(runs: list[TextRun]) -> str:
    if len(runs) > 1:
        runs = list(_merged(_with_whole_words(runs)))
    texts = ["", *(run.text for run in runs), ""]
    return "".join(
        _emphasis(run, texts[number], texts[number + 2]) for number, run in enumerate(runs)
    )


def _with_whole_words(runs: list[TextRun]) -> Iterable[TextRun]:
    """Yield the runs, but plain where a word has several formats."""
    text = "".join(run.text for run in runs)
    edges = []
    at = 0
    for run in runs:
        at += len(run.text)
        edges.append(at)
    inner = iter(edges[:-1])
    edge = next(inner, None)
    plain: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        while edge is not None and edge <= word.start():
            edge = next(inner, None)
        if edge is not None and edge < word.end():
            plain.append(word.span())
    yield from _cut(runs, plain)


def _cut(runs: list[TextRun], plain: list[tuple[int, int]]) -> Iterable[TextRun]:
    """Yield the runs without emphasis in the spans ``plain``."""
    start = 0
    spans = iter(plain)
    span = next(spans, None)
    for run in runs:
        end = start + len(run.text)
        at = start
        while span is not None and span[0] < end:
            first, last = max(at, span[0]), min(end, span[1])
            yield _changed(run, run.text[at - start : first - start], script="")
            yield TextRun(
                run.text[first - start : last - start],
                link=run.link,
                is_markdown=run.is_markdown,
            )
            at = last
            if span[1] > end:
                break
            span = next(spans, None)
        yield _changed(run, run.text[at - start :], script="")
        start = end


def _emphasis(run: TextRun, before: str, after: str) -> str:
    text = run.text if run.is_markdown else _INLINE.sub(lambda match: f"\\{match[0]}", run.text)
    mark = "*" * (run.is_italic + 2 * run.is_bold)
    if not mark or run.is_markdown:
        return text
    parts = [before, *_LINES.split(text), after]  # no emphasis across lines or pages
    return "".join(
        part if number % 2 == 0 else _marked(part, mark, parts[number - 1], parts[number + 1])
        for number, part in enumerate(parts[1:-1], start=1)
    )


def _marked(text: str, mark: str, before: str, after: str) -> str:
    """Return text with emphasis, whose marks CommonMark reads as such.

    A mark beside a space, or between punctuation and a letter, would be shown.
    """
    inner = text.strip()
    if len(inner) == len(text.lstrip()) and after and not after[0].isspace():
        inner = _PUNCTUATION_END.sub("", inner)
    start = text.index(inner)
    if start == 0 and before and not before[-1].isspace():
        inner = _PUNCTUATION_START.sub("", inner)
        start = text.index(inner)
    if not any(c.isalnum() for c in inner):
        return text
    return f"{text[:start]}{mark}{inner}{mark}{text[start + len(inner) :]}"


def _link(text: str, target: str) -> str:
    inner = text.strip()
    start = text.index(inner)
    shown = target.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    if inner.replace("\\", "") in {target, target.removeprefix("mailto:")}:
        return text
    inner = inner.replace("[", "\\[").replace("]", "\\]")
    return f"{text[:start]}[{inner}]({shown}){text[start + len(text.strip()) :]}"
