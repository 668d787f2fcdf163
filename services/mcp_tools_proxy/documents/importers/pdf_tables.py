"""Tables of a PDF page: those drawn with lines, and those whose cells are aligned.

A group of lines is only a table if that is certain: otherwise its text stays as it is.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from pypdfium2 import PdfPage

from mcp_tools_proxy.documents.importers.pdf_narrow_tables import (
    ALIGNED,
    NARROW,
    AlignedRow,
    NarrowBlock,
    columns_at,
)
from mcp_tools_proxy.documents.importers.pdf_ruled_tables import (
    LEAST_FULL,
    LEAST_GAP,
    LEAST_ROWS,
    MOST_HEADER_ROWS,
    NUMERIC,
    PageTable,
    cell_text,
    common_gaps,
    gaps_of,
    ruled_tables,
)
from mcp_tools_proxy.documents.importers.pdf_table_signs import TableSigns
from mcp_tools_proxy.documents.importers.pdf_words import PageCharacters, PageWord, are_justified
from mcp_tools_proxy.documents.importers.pdf_wrapped_tables import WrappedBlock, free_spaces
from mcp_tools_proxy.documents.importers.pipe_table import merged_header, table_lines

_MOST_WORDS = 20_000
"""Words of a page that is searched for tables."""

_SAME_ROW = 0.35
_GAP = 0.9
"""Shares of the type size: greatest difference of baselines in a row, least gap between columns."""

_MOST_PITCH = 2.6
"""Greatest distance of rows, as a share of the least one."""

_LEAST_ROWS_OF_TWO = 4
_MOST_WORDS_OF_CELL = 6.0
_MOST_WORDS_OF_ROW = 16
"""In a table whose columns are hardly further apart than words."""

_LEAST_NUMERIC = 0.7

_LEADERS = re.compile(r"\.{4}|(?:\. ){3}|…{2}|_{4}")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def find_tables(
    page: PdfPage,
    characters: PageCharacters,
    lines: Sequence[Sequence[PageWord]],
    signs: TableSigns,
) -> list[PageTable]:
    """Return the tables of a page, given with the lines of its text."""
    if sum(map(len, lines)) > _MOST_WORDS:
        return []
    order = _order_of(lines)
    ruled = list(ruled_tables(page, lines)) if signs >= TableSigns.BESIDE else []
    if signs is TableSigns.BESIDE:  # boxes of a drawing are not one after the other
        ruled = [it for it in ruled if _are_together(it.words, order)]
    used = {id(word) for table in ruled for word in table.words}
    if signs is not TableSigns.NARROW:
        free = [line for line in lines if not any(id(word) in used for word in line)]
        ruled += _wrapped_tables(characters, free, order)
        used = {id(word) for table in ruled for word in table.words}
    others = [
        line
        for line, is_justified in zip(lines, are_justified(lines), strict=True)
        if not is_justified and not any(id(word) in used for word in line)
    ]
    narrow = list(_narrow_tables(characters, others, order))
    if signs is not TableSigns.WIDE:
        return [*ruled, *narrow]
    aligned = list(_aligned_tables(characters, others, order))
    better = [it for it in narrow if _is_better(it, aligned)]
    used = {id(word) for table in better for word in table.words}
    kept = [it for it in aligned if used.isdisjoint(map(id, it.words))]
    used = {id(word) for table in kept for word in table.words}
    return [*ruled, *kept, *(it for it in narrow if used.isdisjoint(map(id, it.words)))]


def _is_better(narrow: PageTable, aligned: Sequence[PageTable]) -> bool:
    """Return whether a table has all words of others, but in more columns."""
    words = set(map(id, narrow.words))
    same = [it for it in aligned if not words.isdisjoint(map(id, it.words))]
    return all(words.issuperset(map(id, it.words)) and _is_finer(it, narrow) for it in same)


def _aligned_tables(
    characters: PageCharacters,
    lines: Sequence[Sequence[PageWord]],
    order: Mapping[int, int],
) -> Iterator[PageTable]:
    rows, finer = _rows(characters, lines), _rows(characters, lines, NARROW)
    start = first = 0
    while start < len(rows):
        end = _end_of_block(rows, start)
        if end - start >= LEAST_ROWS:
            # a heading above several columns hides their gaps: the next row may have more
            later = [(at, _end_of_block(rows, at)) for at in range(start + 1, min(start + 4, end))]
            best = max([(start, end), *later], key=lambda it: _columns_of(rows[slice(*it)]))
            near = slice(max(first, best[0] - _MOST_ABOVE), best[1])
            tables = [_aligned_table(it[near], best[1] - best[0], order) for it in (rows, finer)]
            table = tables[1] if _is_finer(*tables) else tables[0]
            if table is not None:
                yield table
                start = first = best[1]
                continue
            start = (start + end) // 2 - 1  # not the next one: that would take quadratic time
        start += 1


def _is_finer(table: PageTable | None, finer: PageTable | None) -> bool:
    """Return whether a table with narrower gaps has a name for each of more columns."""
    if finer is None:
        return False
    names, others = _names_of(finer), [] if table is None else _names_of(table)
    return (
        all(names[1:])
        and len(set(names)) == len(names)
        and len(names) + (len(set(others)) < len(others)) > len(others)
    )


def _names_of(table: PageTable) -> list[str]:
    names = table.markdown.partition("\n")[0][1:-1].replace("\\|", "/").split("|")
    return [name.strip() for name in names]


def _narrow_tables(
    characters: PageCharacters,
    lines: Sequence[Sequence[PageWord]],
    order: Mapping[int, int],
) -> Iterator[PageTable]:
    short = [line for line in lines if len(line) <= _MOST_WORDS_OF_ROW]
    rows = _rows(characters, short, NARROW)
    at = first = 0
    while at < len(rows):
        block = NarrowBlock(rows, first, at) if len(rows[at].parts) > 1 else None
        cells = [] if block is None else block.cells()
        table = _table_of(cells, order) if cells else None
        if table is not None and block is not None:
            yield table
            at = first = block.end
        else:  # not always the next row: that would take quadratic time
            at += 1 if block is None else max(1, (block.end - at) // 8)


def _wrapped_tables(
    characters: PageCharacters,
    lines: Sequence[Sequence[PageWord]],
    order: Mapping[int, int],
) -> Iterator[PageTable]:
    rows = _rows(characters, lines, NARROW)
    free = [free_spaces(row) for row in rows]
    blocks: dict[int, WrappedBlock] = {}
    tried: set[WrappedBlock | None] = set()
    at = first = 0
    while at < len(rows):
        near = [
            it
            for it in range(at, min(at + _MOST_HEADER_LINES, len(rows)))
            if len(rows[it].parts) > 1
        ]
        for it in near:
            if it not in blocks:
                blocks[it] = WrappedBlock(rows, free, first, it)
        block = max((blocks[it] for it in near), key=lambda it: it.columns, default=None)
        cells = block.cells(order) if block is not None and block not in tried else []
        words = [word for row in cells for cell in row for word in cell]
        if block is not None and cells and _are_together(words, order):
            texts = _texts_of(cells, order)
            if not _is_contents(texts) and not _is_code(texts):
                yield _page_table(texts, words, order)
            at = first = block.end
            blocks.clear()
        else:  # not always the next row: that would take quadratic time
            tried.add(block)
            at += 1 if block is None else max(1, (block.end - at) // 8)


def _order_of(lines: Sequence[Sequence[PageWord]]) -> Mapping[int, int]:
    return {id(word): number for number, word in enumerate(w for line in lines for w in line)}


def _columns_of(rows: Sequence[AlignedRow]) -> int:
    return len(_column_bounds(rows)) if len(rows) >= LEAST_ROWS else 0


def _rows(
    characters: PageCharacters, lines: Sequence[Sequence[PageWord]], gap: float = _GAP
) -> list[AlignedRow]:
    """Return the words by height, from above."""
    sized = [
        (word, size)
        for line in lines
        if (size := characters.size(line[0].start)) > 0
        for word in line
    ]
    sized.sort(key=lambda it: -it[0].y)
    groups: list[list[tuple[PageWord, float]]] = []
    for word, size in sized:
        if groups and groups[-1][0][0].y - word.y <= _SAME_ROW * size:
            groups[-1].append((word, size))
        else:
            groups.append([(word, size)])
    return [_row(group, gap) for group in groups]


def _row(group: list[tuple[PageWord, float]], gap: float) -> AlignedRow:
    size = max(size for _, size in group)
    words = sorted((word for word, _ in group), key=lambda word: word.left)
    parts: list[list[PageWord]] = []
    for word in words:
        if parts and word.left - parts[-1][-1].right <= gap * size:
            parts[-1].append(word)
        else:
            parts.append([word])
    return AlignedRow(group[0][0].y, size, parts, gaps_of(parts))


def _end_of_block(rows: Sequence[AlignedRow], start: int) -> int:
    """Return the end of the rows from ``start`` on that share gaps between columns."""
    if len(rows[start].parts) < 2:
        return start
    gaps, counts = rows[start].gaps, [len(rows[start].parts)]
    pitches: list[float] = []
    end = last = start + 1
    while end < len(rows):
        row, pitch = rows[end], rows[end - 1].y - rows[end].y
        if pitch > _MOST_PITCH * min([*pitches, 2 * row.size]):
            break
        if row.size > _LARGER * rows[start].size:
            break  # a heading above the next table
        kept = common_gaps(gaps, row.gaps)
        if len(row.parts) > 1:
            if len(kept) <= counts[len(counts) // 2]:
                break
            insort(counts, len(row.parts))
            gaps = kept
            last = end + 1
        elif (
            end - last >= _MOST_SPANNING
            or len(row.parts[0]) > _MOST_SPANNING_WORDS
            or _is_caption(row)
        ):
            break  # a line across the columns, such as "Subtotals"
        pitches.append(pitch)
        end += 1
    return last


def _is_caption(row: AlignedRow) -> bool:
    return _CAPTION.match(" ".join(word.text for part in row.parts for word in part)) is not None


_CAPTION = re.compile(r"(?:Tab(?:le|elle|leau|la|ella|ela|el)?\.?) \d")
_MOST_SPANNING, _MOST_SPANNING_WORDS, _MOST_SPANNING_SHARE = 1, 8, 0.34


def _aligned_table(
    rows: Sequence[AlignedRow], count: int, order: Mapping[int, int]
) -> PageTable | None:
    """Return the table of the last ``count`` rows, and of those above with its headings."""
    above, rows = rows[:-count], rows[-count:]
    bounds = _column_bounds(rows)
    names = _columns_of_names(rows[0], bounds, rows[1:])
    if names is not None:
        bounds = _column_bounds(rows[1:])
    if len(bounds) < 2:
        return None
    head = _rows_above(above, rows, bounds)
    block = [*head, *rows]
    cells = [_cells(row, bounds) for row in block]
    if names is not None:
        parts = dict(zip(names, rows[0].parts, strict=True))
        cells[len(head)] = [list(parts.get(column, ())) for column in range(len(bounds))]
    while True:
        table = _table_of(cells, order)
        if table is not None or len(cells) <= LEAST_ROWS + 1:
            return table
        if not _spans(block[-len(cells)], bounds):
            return None
        del cells[0]


def _rows_above(
    above: Sequence[AlignedRow], rows: Sequence[AlignedRow], bounds: Sequence[tuple[float, float]]
) -> list[AlignedRow]:
    """Return the rows above others that have headings of the columns."""
    pitch = rows[0].y - rows[1].y
    head: list[AlignedRow] = []
    for it in reversed(above):
        row = _header_row(it, it.y - (head or rows)[0].y, pitch, bounds)
        if row is None:
            break
        head.insert(0, row)
    return head


def _columns_of_names(
    row: AlignedRow, bounds: Sequence[tuple[float, float]], body: Sequence[AlignedRow]
) -> list[int] | None:
    """Return the columns of the parts of a heading that is not aligned with the cells below.

    Browsers centre the names of columns, which looks like more columns.
    """
    below = _column_bounds(body)
    if not 1 < len(row.parts) <= len(below) < len(bounds):
        return None
    names = list(range(len(below)))
    if len(row.parts) < len(below):
        ends = _ends_of_columns(body, below)
        names = [bisect_right(ends, (part[0].left + part[-1].right) / 2) for part in row.parts]
    is_beside = [
        (at and part[0].left < below[at - 1][1])
        or (at + 1 < len(below) and part[-1].right > below[at + 1][0])
        for at, part in zip(names, row.parts, strict=True)
    ]
    return None if any(is_beside) or len(set(names)) < len(names) else names


def _ends_of_columns(
    rows: Sequence[AlignedRow], bounds: Sequence[tuple[float, float]]
) -> list[float]:
    """Return a place between each two columns, as their cells are aligned at left or right."""
    cells: list[list[Sequence[PageWord]]] = [[] for _ in bounds]
    for row in rows:
        for part in row.parts if len(row.parts) > 1 else ():
            cells[_columns_near(part, bounds)[0]].append(part)
    ends: list[float] = []
    for at, (first, second) in enumerate(pairwise(bounds)):
        is_right = all(first[1] - part[-1].right < ALIGNED for part in cells[at])
        is_left = all(part[0].left - second[0] < ALIGNED for part in cells[at + 1])
        weight = (1 + is_left - is_right) / 2
        ends.append(first[1] + weight * (second[0] - first[1]))
    return ends


_MOST_ABOVE, _MOST_HEADER_LINES = 6, 8
"""Lines of headings above the rows that have all columns."""


def _header_row(
    row: AlignedRow, distance: float, pitch: float, bounds: Sequence[tuple[float, float]]
) -> AlignedRow | None:
    """Return a row above the columns if it has headings of several of them, with its parts."""
    words = [word for part in row.parts for word in part]
    is_near = distance <= max(2 * row.size, _HEADER_PITCH * pitch)
    if (
        not is_near
        or _is_caption(row)
        or words[0].left < bounds[0][0] - row.size
        or words[-1].right > bounds[-1][1] + row.size
    ):
        return None
    if len(row.parts) > 1:
        return row if distance <= 2 * row.size else None
    # the names of narrow columns are so close that they look like one text
    columns = [_columns_near([word], bounds) for word in words]
    names = [column[0] for column in columns]
    if any(len(column) > 1 for column in columns) or names != sorted(names):
        return None
    if len(set(names)) < max(2, len(bounds) - 1):
        return None
    parts = [
        [word for word, name in zip(words, names, strict=True) if name == column]
        for column in sorted(set(names))
    ]
    return AlignedRow(row.y, row.size, parts, gaps_of(parts))


_HEADER_PITCH, _LARGER = 1.3, 1.1


def _spans(row: AlignedRow, bounds: Sequence[tuple[float, float]]) -> bool:
    return any(len(_columns_near(part, bounds)) > 1 for part in row.parts)


def _table_of(
    rows: Sequence[Sequence[Sequence[PageWord]]], order: Mapping[int, int]
) -> PageTable | None:
    """Return the table with the given cells, if it looks like one."""
    words = list({id(word): word for row in rows for cell in row for word in cell}.values())
    places = [sorted(order[id(word)] for cell in row for word in cell) for row in rows]
    if any(above[-1] > below[0] for above, below in pairwise(places)):
        return None  # columns of text, one after the other
    if not _are_together(words, order):
        return None  # other text is between
    texts = _texts_of(rows, order)
    return _page_table(texts, words, order) if _is_table(texts) else None


def _are_together(words: Sequence[PageWord], order: Mapping[int, int]) -> bool:
    places = [order[id(word)] for word in words]
    return max(places) - min(places) + 1 == len(places)


def _texts_of(
    rows: Sequence[Sequence[Sequence[PageWord]]], order: Mapping[int, int]
) -> list[list[str]]:
    return [[cell_text(sorted(cell, key=lambda it: order[id(it)])) for cell in row] for row in rows]


def _page_table(
    rows: Sequence[Sequence[str]], words: Iterable[PageWord], order: Mapping[int, int]
) -> PageTable:
    in_order = sorted(words, key=lambda word: order[id(word)])
    return PageTable(in_order, "\n".join(table_lines(_with_header(rows))))


def _column_bounds(rows: Sequence[AlignedRow]) -> list[tuple[float, float]]:
    """Return the left and right edges of the columns: stretches that any row with parts uses."""
    edges = sorted(
        (part[0].left, max(word.right for word in part))
        for row in rows
        if len(row.parts) > 1
        for part in row.parts
    )
    bounds: list[tuple[float, float]] = []
    for left, right in edges:
        if bounds and left - bounds[-1][1] <= LEAST_GAP:
            bounds[-1] = bounds[-1][0], max(bounds[-1][1], right)
        else:
            bounds.append((left, right))
    return bounds


def _cells(row: AlignedRow, bounds: Sequence[tuple[float, float]]) -> list[list[PageWord]]:
    """Return the words of each column; a heading above several is repeated."""
    cells: list[list[PageWord]] = [[] for _ in bounds]
    for part in row.parts:
        columns = _columns_near(part, bounds)
        for column in columns[:1] if len(row.parts) == 1 else columns:
            cells[column].extend(part)
    return cells


def _columns_near(part: Sequence[PageWord], bounds: Sequence[tuple[float, float]]) -> list[int]:
    """Return the columns that a part is in; the nearest if it is between columns."""
    middle = (part[0].left + max(word.right for word in part)) / 2
    return columns_at(part, bounds) or [
        min(range(len(bounds)), key=lambda it: abs(sum(bounds[it]) / 2 - middle))
    ]


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether aligned texts are a table, and not columns of prose, a list or contents."""
    columns = list(zip(*rows, strict=True))
    cells = [cell for row in rows for cell in row if cell]
    if _is_other_text(rows, cells):
        return False
    numeric = [_is_numeric(column[1:]) for column in columns]
    if len(columns) == 2:
        return len(rows) >= _LEAST_ROWS_OF_TWO and numeric[1] and all(row[0] for row in rows[1:])
    full = sum(sum(map(bool, row)) >= 3 for row in rows)
    is_short = sum(len(cell.split()) for cell in cells) <= 3 * len(cells)
    return full >= max(2, LEAST_FULL * len(rows) - 1) and (any(numeric[1:]) or is_short)


def _is_other_text(rows: Sequence[Sequence[str]], cells: Sequence[str]) -> bool:
    """Return whether rows look like prose, code, a list, contents or a drawing."""
    total, columns = len(rows), len(rows[0])
    return (
        sum(len(cell.split()) for cell in cells) > _MOST_WORDS_OF_CELL * len(cells)
        or sum(cell == "." for cell in cells) > 1
        or sum(sum(map(bool, row)) == 1 for row in rows) > _MOST_SPANNING_SHARE * total
        or sum(_LABEL.fullmatch(row[0]) is not None for row in rows) > _MOST_LABELS * total
        or (not _has_names(rows) and 2 * _rows_with_letters(rows) < total)
        or (columns > _MANY_COLUMNS and len(cells) < LEAST_FULL * columns * total)
        or _is_contents(rows)
        or _is_code(rows)
    )


def _is_code(rows: Sequence[Sequence[str]]) -> bool:
    code = sum(any(_CODE.search(cell) for cell in row) for row in rows)
    return code > _MOST_CODE * len(rows)


def _rows_with_letters(rows: Sequence[Sequence[str]]) -> int:
    return sum(any(_LETTERS.search(cell) for cell in row) for row in rows)


def _has_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names all columns, above rows of numbers."""
    cells = [cell for row in rows[1:] for cell in row if cell]
    are_years = all(map(_YEAR.fullmatch, rows[0])) and not any(map(_YEAR.fullmatch, cells))
    return (are_years or all(map(_LETTERS.search, rows[0]))) and all(map(NUMERIC.fullmatch, cells))


_CODE = re.compile(r"[{}\\;│├└┌─]|[:=]=|(?<!:)//|->|=>|^=$")
_MOST_CODE = 0.4
_LABEL = re.compile(r"\(?(?:[a-z]|[ivx]{1,4}|\d{1,3})[.):]|[•–—●▪‣◦-]")
_MOST_LABELS = 0.6
_MANY_COLUMNS = 12
_CHAPTER = re.compile(r"(?:\d{1,3}(?:\.\d+)*|[IVXLC]+|[A-Z])\.?(?:\s|$)")


def _is_contents(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the columns are numbers, headings and their pages."""
    if any(_LEADERS.search(cell) for row in rows for cell in row):
        return True
    pages = [int(row[-1]) for row in rows if row[-1].isdecimal() and not _YEAR.fullmatch(row[-1])]
    numbered = sum(_CHAPTER.match(row[0]) is not None for row in rows)
    if 2 * _rows_with_letters(rows[1:]) < len(rows) - 1:
        return False
    return len(pages) >= len(rows) - 1 and pages == sorted(pages) and 2 * numbered >= len(rows)


def _is_numeric(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    numeric = sum(NUMERIC.fullmatch(cell) is not None for cell in filled)
    return len(filled) >= 1 and numeric >= _LEAST_NUMERIC * len(filled)


def _with_header(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return the rows with one header row, which is empty if the table has none.

    Lines of a header are merged.
    """
    numeric = [
        column
        for column in range(1, len(rows[0]))
        if _is_numeric([row[column] for row in rows[1:]])
    ]
    head = 0
    while head < min(MOST_HEADER_ROWS, len(rows) - 1) and _is_heading(rows[head], numeric):
        head += 1
    if not head and numeric:
        return [[""] * len(rows[0]), *rows]
    if head > 1 and any(not row[0] for row in rows[:head]):
        return [merged_header(rows[:head]), *rows[head:]]
    return rows


def _is_heading(row: Sequence[str], numeric: Sequence[int]) -> bool:
    """Return whether the cells above numbers are names; years are names, too."""
    cells = [row[column] for column in numeric if row[column]]
    return bool(numeric) and all(
        _YEAR.fullmatch(cell) or not NUMERIC.fullmatch(cell) for cell in cells
    )


_YEAR = re.compile(r"(?:19|20)\d\d(?:[-–/]\d{2,4})?")
