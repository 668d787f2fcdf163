"""Rows of tables that are larger than a page stay whole, or are cut between cells."""

import re
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import (
    MAX_ROW_BYTES,
    PAGE_BYTES,
    ImportOptions,
    paginate,
)
from mcp_tools_proxy.documents.importers.kinds import import_data
from mcp_tools_proxy.documents.importers.pipe_table import table_lines, table_pages
from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import paragraph_xml, word_file
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="rules")


def words(start: int, count: int) -> str:
    return " ".join(f"w{number}" for number in range(start, start + count))


NAMES = ("code", "rule", "limit")
LARGE = [
    ["R1", "short", "10 euros"],
    ["R2", words(0, 2_400), "20 euros"],
    ["R3", "short", "30 euros"],
]
"""The second row takes 14 kB: more than a page, and less than an answer."""

HUGE = [
    ["R1", "short", "10 euros"],
    ["R2", words(0, 2_600), words(9_000, 1_900)],
    ["R3", "short", "30 euros"],
]
"""The second row takes 28 kB."""


def csv_file(rows: Sequence[Sequence[str]]) -> bytes:
    return "\n".join(",".join(row) for row in (NAMES, *rows)).encode()


def markdown_file(rows: Sequence[Sequence[str]]) -> bytes:
    table = "\n".join(table_lines([NAMES, *rows]))
    return f"# Rules\n\nBefore the table.\n\n{table}\n\nAfter the table.\n".encode()


def html_file(rows: Sequence[Sequence[str]]) -> bytes:
    table = "".join(f"<tr><td>{'<td>'.join(row)}" for row in (NAMES, *rows))
    return f"<!doctype html><h1>Rules</h1><table>{table}</table><p>After the table.".encode()


def word_document(rows: Sequence[Sequence[str]]) -> bytes:
    def cells(row: Sequence[str]) -> str:
        return "".join(f"<w:tc>{paragraph_xml(text)}</w:tc>" for text in row)

    table = "".join(f"<w:tr>{cells(row)}</w:tr>" for row in (NAMES, *rows))
    return word_file(f"{paragraph_xml('Rules')}<w:tbl>{table}</w:tbl>{paragraph_xml('After')}")


MakeFile = Callable[[Sequence[Sequence[str]]], bytes]
KINDS: list[tuple[str, MakeFile]] = [
    (".csv", csv_file),
    (".md", markdown_file),
    (".html", html_file),
    (".docx", word_document),
]


@each_row(("suffix", "file"), KINDS)
def test_a_row_over_a_page_is_whole_with_its_names(suffix: str, file: MakeFile) -> None:
    document = import_data(file(LARGE), suffix, ORIGIN)
    (page,) = [it for it in document.pages if "R2" in it]
    assert f"| {' | '.join(LARGE[1])} |" in page
    assert "| code | rule | limit |" in page
    assert all(page.strip() for page in document.pages)
    (chunk,) = [it for it in chunks_of(document) if "| R2 |" in it.text]
    assert "20 euros" in chunk.text
    snippet = build_index(document).search("limit of w2399", 1)[0].snippet
    assert snippet.startswith("code: R2 | rule: …")
    assert snippet.endswith("limit: 20 euros")


@each_row(("suffix", "file"), KINDS)
def test_a_row_over_an_answer_is_cut_between_cells(suffix: str, file: MakeFile) -> None:
    document = import_data(file(HUGE), suffix, ORIGIN)
    assert max(len(page.encode()) for page in document.pages) <= MAX_ROW_BYTES
    first, second = (
        next(it for it in document.pages if text in it) for text in (HUGE[1][1], HUGE[1][2])
    )
    assert f"| code | rule |\n{'| --- ' * 2}|\n| R2 | w0 " in first
    assert f"| code | limit |\n| --- | --- |\n| R2 | {HUGE[1][2]} |" in second
    snippet = build_index(document).search("w10899", 1)[0].snippet
    assert snippet.startswith("code: R2 | limit: …")
    assert "w10899" in snippet


@each_row(("suffix", "file"), KINDS)
def test_names_are_repeated_on_each_page_of_a_table(suffix: str, file: MakeFile) -> None:
    document = import_data(
        file([[f"R{n}", words(n, 20), "5 euros"] for n in range(200)]), suffix, ORIGIN
    )
    pages = [it for it in document.pages if "| R" in it]
    assert len(pages) > 2
    assert all(page.index("| code | rule | limit |") < page.index("| R") for page in pages)
    assert all(len(page.encode()) <= PAGE_BYTES for page in document.pages)


def test_a_long_cell_is_cut_between_words_with_its_name() -> None:
    text = words(0, 9_000)
    pages = import_data(csv_file([["R1", text, "5 euros"]]), ".csv", ORIGIN).pages
    assert len(pages) == 3
    assert all("| rule |" in page for page in pages)
    assert [word for page in pages for word in re.findall(r"w\d+", page)] == text.split()


def test_parts_of_a_row_have_the_names_of_their_own_columns() -> None:
    names = [f"name {number}" for number in range(40)]
    cells = [f"value{number} {words(0, 200)}" for number in range(40)]
    page = "\n".join(table_lines([names, cells, ["z"] * 40]))
    document = Document(tenant_id="t", doc_id="d", title="d", pages=(page,), text_format="plain")
    chunks = [it for it in chunks_of(document) if "value" in it.text]
    assert len(chunks) > 1
    assert all(chunk.text.startswith("|") for chunk in chunks)
    for number in (0, 17, 39):
        snippet = build_index(document).search(f"value{number}", 1)[0].snippet
        assert f"name {number}: value{number} w0" in snippet
        assert snippet.startswith("name 0: value0 w0")


WIDE_NAMES = ["Code", *(f"Column {number}" for number in range(1, 60))]
WIDE = [
    [f"K{row}", *(f"{words(at, 12)} fee {row * 100 + at} francs" for at in range(1, 60))]
    for row in range(11, 17)
]
"""Rows of about 6 kB."""


def wide_file() -> bytes:
    return "\n".join(",".join(row) for row in (WIDE_NAMES, *WIDE)).encode()


@each_row(
    ("query", "shown"),
    [
        ("1358 francs", "fee 1358 francs"),
        ("fee of 1259", "fee 1259 francs"),
        ("K14 Column 44", "fee 1444 francs"),
        ("Column 57 of K16", "fee 1657 francs"),
    ],
)
def test_a_snippet_of_a_wide_row_has_its_key_and_the_cells_that_match(
    query: str, shown: str
) -> None:
    index = build_index(import_data(wide_file(), ".csv", ORIGIN))
    hit = index.search(query, 1)[0]
    number = int(shown.split()[1])
    assert hit.snippet.startswith(f"Code: K{number // 100}")
    assert f"Column {number % 100}: " in hit.snippet
    assert shown in hit.snippet
    assert len(hit.snippet) < 2_000


def test_no_chunk_of_a_wide_table_is_its_header_alone() -> None:
    document = import_data(wide_file(), ".csv", ORIGIN)
    assert [it.text.count("\n") for it in chunks_of(document)] == [2] * len(WIDE)
    assert all("| K1" in it.text for it in chunks_of(document))


def test_a_heading_stays_with_the_first_row_of_a_wide_table() -> None:
    table = "\n".join(table_lines([WIDE_NAMES, *WIDE[:1]]))
    (chunk,) = chunks_of(import_data(f"# Fees\n\n{table}\n".encode(), ".md", ORIGIN))
    assert chunk.text.startswith("# Fees")
    assert "| K11 |" in chunk.text


def test_text_before_a_wide_table_is_a_chunk_of_its_own() -> None:
    table = "\n".join(table_lines([WIDE_NAMES, *WIDE[:1]]))
    document = import_data(f"{words(0, 60)}\n\n{table}\n".encode(), ".md", ORIGIN)
    before, row = chunks_of(document)
    assert before.text.strip() == words(0, 60)
    assert "| Code |" in row.text
    assert "| K11 |" in row.text


def test_names_over_half_a_page_are_repeated_only_above_larger_rows() -> None:
    names = [f"column {number} " + "x" * 30 for number in range(150)]
    rows = [["1"] * 150] * 50
    pages = list(table_pages(names, rows))
    assert sum("column 0" in page for page in pages) == 1
    large = list(table_pages(names, [[words(0, 20)] * 150] * 3))
    assert all("column 0" in page for page in large)


def test_empty_cells_at_the_end_of_a_row_take_no_pages() -> None:
    text = "|a|b|\n|---|---|\n|text" + "|" * 300_000 + "\n|1|2|\n"
    pages = import_data(text.encode(), ".md", ORIGIN).pages
    assert len(pages) == 1
    assert "| a |\n| --- |\n| text |" in pages[0]


def test_the_names_of_columns_are_never_alone_on_a_page() -> None:
    above = "Some text. " * 700
    text = f"{above}\n\n| a | b |\n| --- | --- |\n| {words(0, 1_500)} | x |\n"
    pages = paginate(text, ())
    assert [page[:9] for page in pages] == [above[:9], "| a | b |"]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("ab|\\ é\t"), st.integers(0, 25_000)).map(
                lambda it: it[0] * it[1]
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_no_text_is_lost_and_no_page_is_larger_than_a_row_may_be(rows: list[list[str]]) -> None:
    rows = [["", *row] for row in rows]  # a first cell with text would be repeated
    pages = list(table_pages(["k", "l", "m", "n", "o"], rows))
    assert max(len(page.encode()) for page in pages) <= MAX_ROW_BYTES
    shown = "".join(line for page in pages for line in page.split("\n")[2:])
    for letter in "ab\\é":
        wanted = sum(cell.count(letter) for row in rows for cell in row)
        escapes = sum(" ".join(cell.split()).count("|") for row in rows for cell in row)
        assert shown.count(letter) == wanted + (escapes if letter == "\\" else 0)
