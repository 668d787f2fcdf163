from mcp_tools_proxy.documents.layout import by_begin, section_at
from mcp_tools_proxy.domain.document import Section
from tests.support.builders import make_document


def sections(*entries: tuple[str, int, int | None, int, int | None]) -> dict[str, Section]:
    return {
        name: Section(
            section_id=name, title=name, page_start=p1, start_char=c1, page_end=p2, end_char=c2
        )
        for name, p1, c1, p2, c2 in entries
    }


DOCUMENT = make_document(
    pages=["x" * 100] * 4,
    sections=sections(
        ("parent", 1, None, 3, None), ("first", 1, 10, 2, 50), ("second", 2, 50, 3, 20)
    ),
)


def found(page: int, char: int) -> str | None:
    section = section_at(by_begin(DOCUMENT.sections.values()), page, char)
    return section.section_id if section else None


def test_the_innermost_section_is_found() -> None:
    assert [found(1, 5), found(1, 10), found(2, 49), found(2, 50), found(3, 20)] == [
        "parent",
        "first",
        "first",
        "second",
        "parent",
    ]


def test_outside_all_sections_the_result_is_empty() -> None:
    assert found(4, 0) is None


def test_the_inner_of_two_sections_with_the_same_start_is_found() -> None:
    twins = sections(("outer", 1, None, 4, None), ("inner", 1, None, 2, None))
    section = section_at(by_begin(twins.values()), 1, 0)
    assert section is twins["inner"]
