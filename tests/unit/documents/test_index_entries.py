from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.layout import by_begin, each_chunk, section_at
from mcp_tools_proxy.documents.search.analysis import ENGLISH
from mcp_tools_proxy.documents.search.tenant_index_entries import PLACE, entries_of, read_place
from mcp_tools_proxy.documents.versions import head_of
from mcp_tools_proxy.domain.document import Section
from tests.support.builders import make_document

PAGES = tuple(f"page {number} " + "word " * 300 for number in range(3))
CHARS = st.one_of(st.none(), st.integers(0, 1_500))
SPANS = st.lists(st.tuples(st.integers(1, 3), CHARS, st.integers(1, 3), CHARS), max_size=8)


@given(spans=SPANS)
def test_each_character_is_in_its_innermost_section(
    spans: list[tuple[int, int | None, int, int | None]],
) -> None:
    sections = {
        f"s{number}": Section(
            section_id=f"s{number}",
            title="",
            page_start=first,
            page_end=last,
            start_char=start,
            end_char=end,
        )
        for number, (first, start, last, end) in enumerate(spans)
    }
    document = make_document(pages=PAGES, sections=sections)
    entries = [*entries_of(document, head_of(document), ENGLISH)]
    places = [read_place(entry) for entry in entries if PLACE in entry.to_dict()]
    ordered = by_begin(sections.values())
    assert [place.chunk_id for place in places] == [it.chunk_id for it in each_chunk(document)]
    for place in places:
        for char in range(place.start or 0, place.end or 0):
            expected = section_at(ordered, place.page, char)
            found = place.section_at(char)
            assert found == (expected.section_id if expected else None)
