import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.documents.search.searched_text import is_listing
from mcp_tools_proxy.domain.document import Chunk, Hit, Section
from tests.support.builders import make_document
from tests.support.tables import each_row

FILLER = " ".join(f"filler{n}" for n in range(60))
CONTENTS = "\n".join(f"{n}.1 Backup of part {n} . . . . . . . . . . {n + 3}" for n in range(1, 9))


def search(*pages: str, query: str, max_results: int = 5) -> tuple[Hit, ...]:
    return build_index(make_document(pages=pages)).search(query, max_results)


@pytest.mark.requirement("T-07")
def test_a_place_with_all_words_ranks_before_one_repeating_the_rarest_word() -> None:
    others = [FILLER] * 30 + [f"packages of part {n} {FILLER}" for n in range(9)]
    rare = f"obsoleting obsoleting obsoleting {FILLER[:200]}"
    hits = search(*others, rare, f"obsoleting packages {FILLER}", query="obsoleting packages")
    assert hits[0].page == 41


@pytest.mark.requirement("T-07")
def test_a_table_of_contents_ranks_after_the_text() -> None:
    hits = search(CONTENTS, f"{FILLER} a backup of each part {FILLER}", query="backup part")
    assert [hit.page for hit in hits] == [2, 1]


def test_a_table_of_contents_is_found_if_nothing_else_matches() -> None:
    assert [hit.page for hit in search(CONTENTS, FILLER, query="backup")] == [1]


def test_results_come_from_different_pages() -> None:
    page = "\n\n".join([f"backup {FILLER} {FILLER}"] * 4)
    hits = search(page, f"backup {FILLER} {FILLER}", f"backup {FILLER} {FILLER}", query="backup")
    assert sorted(hit.page for hit in hits[:3]) == [1, 2, 3]


def test_the_two_clearly_best_places_can_be_on_the_same_page() -> None:
    page = f"backup restore plan {FILLER} {FILLER}\n\n" * 2
    hits = search(page, f"plan {FILLER} {FILLER}", query="backup restore plan")
    assert [hit.page for hit in hits[:2]] == [1, 1]


def test_distant_words_on_one_page_are_found_together() -> None:
    parts = "{0} {2}\n\n{2}\n\n{1} {2}"
    text = f"{FILLER} {FILLER}"
    apart = parts.format("backup", "restore", text)
    others = [parts.format(word, "", text) for word in ("backup", "restore") for _ in range(4)]
    assert search(*others, apart, query="backup restore")[0].page == 9


@each_row(
    ("text", "expected"),
    [
        (CONTENTS, True),
        ("Linespoints 77\nPolar plots 78\nPoints 79\nPolygons 79\nSteps 81\nVectors 81", True),
        ("apt, 39\napt-doc, 38, 39\nbinutils, 29\ndpkg-dev, 36\nekiga, 22\nfakeroot, 36", True),
        ("Revenue 412\nCosts 97\nTaxes 308\nProfit 11\nStaff 95\nOffices 4", False),
        ("Year 2019 4 7\nYear 2020 9 2\nYear 2021 3 8\nYear 2022 1 5\nYear 2023 8 4", False),
        ("One line of prose.\nAnother one follows.\nAnd a third.\nAnd a fourth.", False),
        ("", False),
    ],
)
def test_tables_of_contents_and_indexes_are_recognized_as_listings(
    text: str, expected: bool
) -> None:
    assert is_listing(text, last_page=100) is expected


@pytest.mark.requirement("T-07")
@given(before=st.text(max_size=300), after=st.text(max_size=300))
def test_a_hit_has_the_position_of_its_snippet(before: str, after: str) -> None:
    page = f"{before} needle {after}"
    document = make_document(pages=(page,))
    (hit,) = build_index(document).search("needle", 1)
    assert hit.span is not None
    shown = " ".join(
        page[hit.span.start_char : hit.span.end_char].encode(errors="replace").decode().split()
    )
    assert unicodedata.normalize("NFC", shown) == hit.snippet.removeprefix("…").removesuffix("…")


def test_positions_count_code_points_of_the_original_text() -> None:
    page = "e\u0301" * 400 + " needle"
    (hit,) = search(page, query="needle")
    assert hit.span is not None
    begin, end = hit.span.start_char, hit.span.end_char
    assert (end, page[begin:end][-6:]) == (len(page), "needle")


def test_a_chunk_whose_text_is_not_on_its_page_does_not_have_a_position() -> None:
    chunk = Chunk(chunk_id="own", page=1, chunk_index=0, source="a needle", start=0, end=8)
    document = make_document(pages=("other",), own_chunks=(chunk,))
    (hit,) = build_index(document).search("needle", 1)
    assert hit.span is None


@each_row(
    ("written", "query"),
    [
        ("Paketverwaltung", "Verwaltung"),
        ("UseCaseId", "case"),
        ("recommended", "recomended"),
        ("安装软件包", "软件"),
        ("установить", "установка"),
    ],
)
def test_a_snippet_shows_the_match_of_every_kind(written: str, query: str) -> None:
    assert written in search(f"{FILLER} {FILLER} {written}", query=query)[0].snippet


@given(words=st.lists(st.from_regex(r"[a-zа-яё]{2,9}", fullmatch=True), min_size=1, max_size=6))
def test_a_question_with_any_word_of_the_text_has_a_result(words: list[str]) -> None:
    assert search("before", words[0], query=" ".join(words))


def test_running_titles_match_on_their_first_page_only() -> None:
    names = ("alpha", "bravo", "charlie", "delta", "echo")
    pages = [f"Gateway guide\n\nThe guide of {it}\n\n{n}" for n, it in enumerate(names, 1)]
    index = build_index(make_document(pages=pages))
    assert [hit.page for hit in index.search("gateway", 5)] == [1]
    hit = next(iter(index.search("guide charlie", 5)))
    assert (hit.page, hit.span is not None and pages[2][hit.span.start_char :][:7]) == (
        3,
        "The gui",
    )


def test_a_hit_names_the_section_of_its_rarest_word() -> None:
    page = "Answers take three working days.\n\nA parent may work twenty hours."
    parents = Section(
        section_id="parents", title="", page_start=1, page_end=1, start_char=page.index("A parent")
    )
    others = ("Working days are days of work.",) * 3
    document = make_document(pages=(page, *others), sections={"parents": parents})
    assert next(iter(build_index(document).search("parent work", 1))).section_id == "parents"
