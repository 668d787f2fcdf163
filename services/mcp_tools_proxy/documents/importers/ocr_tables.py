"""Finds tables in the words of a scanned page, by their positions.

Tesseract reads a table without lines column by column, and leaves out empty cells.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from mcp_tools_proxy.documents.importers.pipe_table import table_lines
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_ROW_SHIFT = 0.6
_CELL_GAP = 1.5
_COLUMN_GAP = 0.5
_ROW_GAP = 4.5
"""Lengths in heights of a word. Words in a line are 0.4 apart; rows with lines, 2 to 3."""

_FEWEST_ROWS = 3
_FEWEST_COLUMNS = 3
_MOST_CELL_WORDS = 4.0
"""Maximum mean of words in a cell: lines of a text in two columns have more."""

_MOST_WORDS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class OcrWord:
    """A recognised word: its box in pixels, from the top left, and its place in the layout."""

    text: str
    left: int
    top: int
    right: int
    bottom: int
    paragraph: tuple[int, int]
    line: int

    @property
    def middle(self) -> float:
        """The vertical centre."""
        return (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class _Row:
    cells: list[list[OcrWord]]
    middle: float


def parse_words(table: str) -> list[OcrWord]:
    """Return the words of Tesseract's tab-separated output."""
    words: list[OcrWord] = []
    for line in table.splitlines()[:_MOST_WORDS]:
        values = line.split("\t")
        if len(values) != 12 or values[0] != "5" or not any(map(str.isalnum, values[11])):
            continue
        block, paragraph, number = map(int, values[2:5])
        x, y, width, height = map(int, values[6:10])
        words.append(OcrWord(values[11], x, y, x + width, y + height, (block, paragraph), number))
    return words


class OcrTable:
    """A table of a page: its words, its box in pixels, and its rows of cells."""

    def __init__(self, rows: Sequence[_Row], height: float) -> None:
        self.words = [word for row in rows for cell in row.cells for word in cell]
        self.left = min(it.left for it in self.words)
        self.top = min(it.top for it in self.words)
        self.right = max(it.right for it in self.words)
        self.bottom = max(it.bottom for it in self.words)
        edges = [self.left, *_separators(rows, height), self.right]
        self.rows = [_texts(row, list(pairwise(edges))) for row in rows]

    @property
    def size(self) -> int:
        """Number of words."""
        return len(self.words)

    @property
    def is_table(self) -> bool:
        """Whether its cells are those of a table, not of a text in columns or a form."""
        columns = len(self.rows[0])
        filled = [cell for row in self.rows for cell in row if cell]
        if sum(len(cell.split()) for cell in filled) > _MOST_CELL_WORDS * len(filled):
            return False
        if columns >= _FEWEST_COLUMNS:
            return True
        numbers = sum(any(map(str.isdigit, row[-1])) for row in self.rows)
        return columns == _FEWEST_COLUMNS - 1 and numbers * 2 > len(self.rows)


def find_tables(words: Sequence[OcrWord]) -> list[OcrTable]:
    """Return the tables of a page, from top to bottom."""
    if not words:
        return []
    height = median(it.bottom - it.top for it in words)
    tables: list[OcrTable] = []
    for run in _runs(list(_rows(words, height)), height):
        table = OcrTable(run, height)
        if table.is_table:
            tables.append(table)
    return tables


def _rows(words: Sequence[OcrWord], height: float) -> Iterator[_Row]:
    line: list[OcrWord] = []
    for word in sorted(words, key=lambda it: it.middle):
        if line and word.middle - line[0].middle > _ROW_SHIFT * height:
            yield _row(line, height)
            line = []
        line.append(word)
    yield _row(line, height)


def _row(line: Sequence[OcrWord], height: float) -> _Row:
    words = sorted(line, key=lambda it: it.left)
    cells = [[words[0]]]
    for before, word in pairwise(words):
        if word.left - before.right > _CELL_GAP * height:
            cells.append([])
        cells[-1].append(word)
    return _Row(cells, line[0].middle)


def _runs(rows: Sequence[_Row], height: float) -> Iterator[list[_Row]]:
    """Yield rows of several cells that follow each other, with short rows of one cell between."""
    run: list[_Row] = []
    for row in rows:
        if run and row.middle - run[-1].middle > _ROW_GAP * height:
            yield from _complete(run)
            run = []
        is_part = len(row.cells) > 1 or (bool(run) and len(row.cells[0]) <= _MOST_CELL_WORDS)
        if is_part:
            run.append(row)
        else:
            yield from _complete(run)
            run = []
    yield from _complete(run)


def _complete(run: list[_Row]) -> Iterator[list[_Row]]:
    while run and len(run[-1].cells) == 1:
        run = run[:-1]
    if sum(len(row.cells) > 1 for row in run) >= _FEWEST_ROWS:
        yield run


def _separators(rows: Sequence[_Row], height: float) -> list[int]:
    """Return positions between columns, which at most one cell of many covers."""
    most = 1 if len(rows) > _FEWEST_ROWS else 0
    changes = sorted(
        change
        for row in rows
        for cell in row.cells
        for change in ((cell[0].left, 1), (cell[-1].right, -1))
    )
    separators: list[int] = []
    covering = 0
    since: int | None = None
    for at, change in changes:
        if since is not None and change > 0 and covering == most and at >= since:
            if at - since >= _COLUMN_GAP * height:
                separators.append((since + at) // 2)
            since = None
        covering += change
        if covering <= most and change < 0 and since is None:
            since = at
    return separators


def _texts(row: _Row, columns: Sequence[tuple[int, int]]) -> list[str]:
    """Return the text of each column; a cell belongs to the column with most of it."""
    texts = [""] * len(columns)
    for cell in row.cells:
        left, right = cell[0].left, cell[-1].right
        overlaps = [min(right, end) - max(left, start) for start, end in columns]
        column = overlaps.index(max(overlaps))
        texts[column] = " ".join(filter(None, (texts[column], *(it.text for it in cell))))
    return texts


def text_with_tables(words: Sequence[OcrWord], tables: Sequence[tuple[OcrTable, OcrTable]]) -> str:
    """Return the text of a page; the second of each pair stands at the place of the first."""
    table_of = {id(word): written for found, written in tables for word in found.words}
    parts: list[str] = []
    written: set[int] = set()
    before: OcrWord | None = None
    for word in words:
        table = table_of.get(id(word))
        if table is not None:
            if id(table) not in written:
                written.add(id(table))
                parts.append("\n\n".join(("", "\n".join(table_lines(table.rows)), "")))
                before = None
            continue
        if before is not None:
            is_line = (before.paragraph, before.line) == (word.paragraph, word.line)
            parts.append(" " if is_line else "\n" if before.paragraph == word.paragraph else "\n\n")
        parts.append(word.text)
        before = word
    return "".join(parts).strip()
