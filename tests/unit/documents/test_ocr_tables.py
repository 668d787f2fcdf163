"""Tables in the words of scanned pages; Tesseract itself is tested in tests/system."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.ocr_tables import (
    OcrWord,
    find_tables,
    parse_words,
    text_with_tables,
)

PLAN = [
    ["Plan", "Q1", "Q2", "Q3"],
    ["North", "10", "", "30"],
    ["South", "22", "", ""],
    ["West", "", "6", "7"],
    ["Sum", "32", "6", "37"],
]


def words_of(
    rows: Sequence[Sequence[str]], *, width: int = 300, top: int = 0, block: int = 1
) -> list[OcrWord]:
    """Return the words of rows of cells; letters are 20 by 30 pixels, rows 60 high."""
    words: list[OcrWord] = []
    for line, row in enumerate(rows):
        for column, cell in enumerate(row):
            left = column * width
            for text in cell.split():
                right, upper = left + 20 * len(text), top + 60 * line
                words.append(OcrWord(text, left, upper, right, upper + 30, (block, 1), line))
                left = right + 12
    return words


def text_of(words: Sequence[OcrWord]) -> list[str]:
    tables = find_tables(words)
    return text_with_tables(words, [(it, it) for it in tables]).splitlines()


def test_empty_cells_keep_their_columns() -> None:
    assert text_of(words_of(PLAN)) == [
        "| Plan | Q1 | Q2 | Q3 |",
        "| --- | --- | --- | --- |",
        "| North | 10 |  | 30 |",
        "| South | 22 |  |  |",
        "| West |  | 6 | 7 |",
        "| Sum | 32 | 6 | 37 |",
    ]


def test_words_that_were_read_column_by_column_become_rows() -> None:
    words = sorted(words_of(PLAN), key=lambda it: (it.left // 300, it.top))
    assert text_of(words)[2] == "| North | 10 |  | 30 |"


def test_text_around_a_table_stays() -> None:
    before = words_of([["The figures of the year are in the table below."]])
    after = words_of([["All figures are in thousands."]], top=700, block=3)
    lines = text_of([*before, *words_of(PLAN, top=200, block=2), *after])
    assert (lines[0], lines[2], lines[-1]) == (
        "The figures of the year are in the table below.",
        "| Plan | Q1 | Q2 | Q3 |",
        "All figures are in thousands.",
    )


def test_cells_of_several_words_stay_whole() -> None:
    rows = [
        ["Item", "Amount", "Price"],
        ["A long wooden desk", "2", "50"],
        ["Lamp", "", "9"],
        ["Chair", "4", "20"],
    ]
    assert "| A long wooden desk | 2 | 50 |" in text_of(words_of(rows, width=500))


def test_a_text_in_two_columns_is_not_a_table() -> None:
    prose = "the council met on the day to discuss it"
    assert find_tables(words_of([[prose, prose]] * 6, width=1000)) == []


def test_lines_of_labels_and_values_are_not_a_table() -> None:
    assert find_tables(words_of([["Name:", "Eva"], ["Town:", "Leeds"], ["Job:", "Baker"]])) == []


def test_the_output_of_tesseract_is_parsed() -> None:
    lines = [
        "1\t1\t0\t0\t0\t0\t0\t0\t2482\t3508\t-1\t",
        "5\t1\t2\t3\t4\t1\t250\t297\t82\t37\t96.88\tThe",
        "5\t1\t2\t3\t4\t2\t350\t297\t8\t37\t95.00\t|",
        "5\t1\t2\t3\t4\t3\t350\t297\t8\t37\t95.00\t ",
        "",
    ]
    (word,) = parse_words("\n".join(lines))
    assert (word.text, word.left, word.top, word.right, word.bottom) == ("The", 250, 297, 332, 334)
    assert (word.paragraph, word.line) == ((2, 3), 4)


WORDS = st.builds(
    lambda text, left, top, width, height, line: OcrWord(
        text, left, top, left + width, top + height, (1, 1), line
    ),
    text=st.sampled_from(["a", "word", "12", "3.5"]),
    left=st.integers(0, 2000),
    top=st.integers(0, 600),
    width=st.integers(1, 200),
    height=st.integers(1, 60),
    line=st.integers(1, 5),
)


@given(st.lists(WORDS, max_size=60))
def test_no_word_is_lost(words: list[OcrWord]) -> None:
    found = Counter("\n".join(text_of(words)).replace("|", " ").replace("---", " ").split())
    assert found == Counter(it.text for it in words)
