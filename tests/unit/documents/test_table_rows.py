"""Rows of tables stay whole in chunks and snippets, with the names of their columns."""

from pathlib import Path

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.csv_table import import_csv
from mcp_tools_proxy.documents.layout import CHUNK_CHARS, chunks_of
from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

SAMPLES = Path(__file__).parents[2] / "data/documents"
ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="rules")
TITLE = "Sales by region and year, in thousands"
TABLE = "\n".join(
    [f"| {TITLE} | {TITLE} | {TITLE} |", "|---|---|---|", "| Region | Year | **Sales** |"]
    + [f"| Region {n} | {2000 + n} | {n * 7} \\| x |" for n in range(80)]
)


def document_of(page: str, text_format: str | None) -> Document:
    return Document(tenant_id="t", doc_id="d", title="d", pages=(page,), text_format=text_format)


def test_a_snippet_of_long_cells_is_a_whole_row_with_its_columns() -> None:
    document = import_csv((SAMPLES / "24-long-cells.csv").read_bytes(), ORIGIN)
    hit = build_index(document).search("limit of rule 4", 1)[0]
    assert hit.snippet.startswith("code: R04 | name: Rule number 4 | rule: The clerk files")
    assert hit.snippet.endswith("Limit 40 euros.")
    assert all(other not in hit.snippet for other in ("R03", "R05", "Limit 30", "Limit 50"))
    assert hit.span is not None
    page = document.pages[0]
    assert page[hit.span.start_char : hit.span.end_char].startswith("R04 | Rule number 4")


def test_chunks_never_cut_a_row() -> None:
    document = import_csv((SAMPLES / "24-long-cells.csv").read_bytes(), ORIGIN)
    lines = [line for chunk in chunks_of(document) for line in chunk.text.split("\n")]
    assert lines == [line for page in document.pages for line in page.strip().split("\n")]


@each_row("text_format", ["markdown", "plain"])
def test_a_row_is_shown_with_the_names_below_a_repeated_title(text_format: str) -> None:
    page = f"Before the table.\n\n{TABLE}\n\nAfter the table."
    document = document_of(page, text_format)
    chunks = chunks_of(document)
    assert all(len(chunk.text) <= CHUNK_CHARS for chunk in chunks)
    assert all(chunk.text.startswith("|") for chunk in chunks[1:])
    hit = build_index(document).search("sales of region 57", 1)[0]
    sales = "Sales" if text_format == "markdown" else "**Sales**"
    assert hit.snippet == f"Region: Region 57 | Year: 2057 | {sales}: 399 | x"


def test_documents_of_unknown_format_keep_their_chunks() -> None:
    page = f"Before the table.\n\n{TABLE}"
    whole = [it.text for it in chunks_of(document_of(page, None))]
    assert any(not text.startswith("|") for text in whole[1:])


def test_an_overlong_row_is_cut_like_other_text() -> None:
    page = f"| a | b |\n|---|---|\n| x | {'word ' * 20_000}|\n| y | z |"
    chunks = chunks_of(document_of(page, "plain"))
    assert len(chunks) > 50
    assert "".join("".join(it.text.split()) for it in chunks) == "".join(page.split())


def test_markup_and_targets_of_links_are_neither_found_nor_shown() -> None:
    page = "# Fees\n\nSee **the [list](https://shop.example/prices)** un**believ**able `x`."
    index = build_index(document_of(page, "markdown"))
    assert index.search("unbelievable list", 1)[0].snippet == "Fees See the list unbelievable x."
    assert index.search("shop.example", 3) == ()


@each_row("text_format", ["markdown", "plain"])
def test_a_cell_after_empty_ones_keeps_the_name_of_its_column(text_format: str) -> None:
    page = "| A | B | C |\n| --- | --- | --- |\n| north |  | 30 |\n|  |  | south |"
    index = build_index(document_of(page, text_format))
    snippets = [index.search(query, 1)[0].snippet for query in ("north", "south")]
    assert snippets == ["A: north | C: 30", "C: south"]
