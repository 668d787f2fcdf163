from mcp_tools_proxy.documents.importers.base import (
    MAX_RANGES,
    pages_without_text,
    spell_pages,
)
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row


@each_row(
    ("numbers", "spelt"),
    [
        ([], ""),
        ([3], "3"),
        ([3, 4], "3-4"),
        ([1, 2, 3, 7], "1-3, 7"),
        ([1, 3, 5, 6], "1, 3, 5-6"),
    ],
)
def test_consecutive_pages_are_a_range(numbers: list[int], spelt: str) -> None:
    assert spell_pages(numbers) == spelt


def test_pictures_on_every_other_page_give_one_short_line() -> None:
    spelt = spell_pages(range(1, 2001, 2))
    assert spelt.startswith("1, 3, 5, ")
    assert spelt.endswith(f", {2 * MAX_RANGES - 1} and {1000 - MAX_RANGES} more ranges")


def test_a_page_of_white_space_is_textless() -> None:
    document = Document(tenant_id="t", doc_id="d", title="", pages=("a", " \n", "", "b"))
    assert pages_without_text(document) == [2, 3]
