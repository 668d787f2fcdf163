import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search import search_index as module
from mcp_tools_proxy.documents.search.search_index import SearchIndex, build_index
from mcp_tools_proxy.domain.document import Chunk, Hit, Section
from tests.support.builders import make_document
from tests.support.tables import each_row


def search(*pages: str, query: str, max_results: int = 5) -> tuple[Hit, ...]:
    return build_index(make_document(pages=pages)).search(query, max_results)


@pytest.fixture(scope="module")
def bilingual() -> SearchIndex:
    return build_index(make_document(pages=("one server", "два сервера")))


def filler(words: int) -> str:
    return " ".join(f"filler{n}" for n in range(words))


@pytest.mark.requirement("T-07")
@each_row(
    ("written", "query"),
    [
        ("configuration", "configuring"),
        ("configured", "configuring"),
        ("connections", "connect"),
        ("сервером", "сервера"),
        ("настройками", "настройка"),
        ("каталогов", "КАТАЛОГ"),
    ],
)
def test_a_word_is_found_by_another_inflection(written: str, query: str) -> None:
    assert [hit.page for hit in search("nothing", f"before {written} after", query=query)] == [2]


@each_row(
    ("written", "query"),
    [
        ("LDAP", "ldap"),
        ("ёлка", "елка"),
        ("елка", "Ёлка"),
        ("café", "cafe"),
        ("naive", "naïve"),
        ("и\u0306од", "йод"),
        ("conﬁgure", "configure"),
    ],
)
def test_search_ignores_case_and_accents(written: str, query: str) -> None:
    assert len(search(f"before {written} after", query=query)) == 1


@pytest.mark.requirement("T-07")
def test_a_rare_word_outweighs_a_common_one() -> None:
    common = [f"the server number {n}" for n in range(20)]
    hits = search(*common, "the backup number 20", query="server backup")
    assert hits[0].page == 21


@pytest.mark.requirement("T-07")
def test_a_place_with_more_of_the_words_ranks_higher() -> None:
    hits = search("backup one two", "restore one two", "backup restore one", query="backup restore")
    assert hits[0].page == 3


@pytest.mark.requirement("T-07")
@each_row(
    "query",
    [
        '"server',
        "server AND (",
        "title:server^9 NOT -server",
        "+server~2 *?[a TO b]",
        "server\0",
        "🎉 server 🎉",
        "server \ud800",
        "server " + "!\"'()[]{}:^~*?\\/" * 650,
        "x" * 5_000 + " server",
    ],
)
def test_operators_and_special_characters_are_plain_text(query: str) -> None:
    assert [hit.page for hit in search("nothing here", "one server", query=query)] == [2]


@pytest.mark.requirement("T-07")
@each_row("query", ["", "   ", '"" ()', "!" * 10_000, "\0", "🎉", "\ud800"])
def test_a_query_without_words_finds_nothing(query: str) -> None:
    assert search("one server", query=query) == ()


@pytest.mark.requirement("T-07")
@given(query=st.text(st.characters(exclude_categories=[])))
def test_any_query_text_is_accepted(bilingual: SearchIndex, query: str) -> None:
    assert len(bilingual.search(query, 5)) <= 2


def test_words_missing_in_the_document_find_nothing() -> None:
    assert search("one server", query="absent") == ()


@each_row("pages", [(), ("",), ("  \n\n ", "")])
def test_a_document_without_text_gives_zero_hits(pages: tuple[str, ...]) -> None:
    assert search(*pages, query="server") == ()


def test_text_that_utf8_cannot_encode_does_not_hide_other_text() -> None:
    assert search("bad \ud800 server", query="server")[0].snippet == "bad ? server"


def test_the_number_of_hits_is_limited_as_requested() -> None:
    assert len(search(*["one server"] * 9, query="server", max_results=3)) == 3


def test_places_with_equal_scores_are_in_reading_order() -> None:
    hits = search(*["one server"] * 40, query="server", max_results=4)
    assert [hit.page for hit in hits] == [1, 2, 3, 4]


def test_a_chunk_with_several_matches_is_one_hit() -> None:
    hits = search("server " * 100, query="server servers")
    assert [hit.chunk_id for hit in hits] == ["p1-c1"]


def test_scores_are_descending_and_have_four_digits() -> None:
    scores = [
        hit.score
        for hit in search("server", "server and more", f"server {filler(50)}", query="server")
    ]
    assert scores == sorted((round(score, 4) for score in scores), reverse=True)


def test_a_hit_names_the_innermost_section_at_the_match() -> None:
    page = f"{filler(20)} server {filler(20)}"
    inner = Section(
        section_id="inner", title="", page_start=1, page_end=1, start_char=page.index("server")
    )
    outer = Section(section_id="outer", title="", page_start=1, page_end=2)
    document = make_document(pages=(page, "more"), sections={"outer": outer, "inner": inner})
    assert build_index(document).search("server", 1)[0].section_id == "inner"


def test_a_hit_outside_all_sections_omits_the_section() -> None:
    assert search("server", query="server")[0].section_id is None


@each_row(
    ("text", "section_id"),
    [("the second server", "second"), ("a server that the page lacks", "first")],
)
def test_a_given_chunk_is_located_by_its_text(text: str, section_id: str) -> None:
    page = "the first server. the second server."
    chunk = Chunk(chunk_id="own", page=1, chunk_index=0, source=text, start=0, end=len(text))
    sections = {
        "first": Section(section_id="first", title="", page_start=1, page_end=1),
        "second": Section(section_id="second", title="", page_start=1, page_end=1, start_char=18),
    }
    document = make_document(pages=(page,), sections=sections, own_chunks=(chunk,))
    assert build_index(document).search("server", 1)[0].section_id == section_id


def test_a_chunk_on_a_page_that_does_not_exist_is_still_found() -> None:
    chunk = Chunk(chunk_id="own", page=9, chunk_index=0, source="server", start=0, end=6)
    document = make_document(pages=("one",), own_chunks=(chunk,))
    assert build_index(document).search("server", 1)[0].chunk_id == "own"


def test_a_query_of_very_many_words_is_answered() -> None:
    assert search(filler(600), query=filler(600))[0].page == 1


def test_a_search_in_few_short_chunks_is_quick() -> None:
    assert build_index(make_document()).is_quick("server")


def test_a_search_for_many_words_is_not_quick() -> None:
    assert not build_index(make_document()).is_quick("a " * 50)


@pytest.mark.parametrize(
    "bound",
    [
        "QUICK_TEXT_BYTES_OF_A_WORD",
        "QUICK_CHUNK_CHARS",
        "QUICK_QUERY_CHARS",
        "QUICK_QUERY_WORDS",
    ],
)
def test_a_search_over_any_limit_is_not_quick(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = make_document(pages=("one",))
    monkeypatch.setattr(module, bound, 0)
    assert not build_index(document).is_quick("one")


def test_the_repr_contains_the_size() -> None:
    shown = repr(build_index(make_document(doc_id="guide", pages=("one", "два"))))
    assert shown == "<SearchIndex 'guide': 2 chunks, 9 bytes of text>"


def test_text_bytes_counts_utf8() -> None:
    assert build_index(make_document(pages=("да", "ok"))).text_bytes == 6
