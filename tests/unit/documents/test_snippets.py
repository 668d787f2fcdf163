import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.documents.search.snippets import SNIPPET_CHARS, best_span, excerpt
from mcp_tools_proxy.domain.document import Chunk
from tests.support.builders import make_document
from tests.support.tables import each_row


def snippet_of(*pages: str, query: str) -> str:
    return build_index(make_document(pages=pages)).search(query, 1)[0].snippet


def filler(words: int) -> str:
    return " ".join(f"filler{n}" for n in range(words))


def test_a_snippet_shows_the_place_where_the_words_are_close() -> None:
    page = f"backup {filler(30)} restore the backup {filler(30)} restore"
    assert "restore the backup" in snippet_of(page, query="backup restore")


def test_a_snippet_prefers_the_rarer_word() -> None:
    page = f"the the the the {filler(60)} the password"
    others = [f"the {n}" for n in range(9)]
    assert "password" in snippet_of(page, *others, query="the password")


def test_a_snippet_of_russian_text_contains_the_match() -> None:
    page = f"{'наполнение ' * 40} сервера {'наполнение ' * 40}"
    assert "сервера" in snippet_of(page, query="сервером")


@each_row(
    ("written", "query"),
    [
        ("configurations", "configured"),
        ("СЕРВЕРОВ", "сервер"),
        ("dying", "die"),
        ("Ёлками", "елка"),
        ("елки", "Ёлка"),
        ("и\u0306оды", "йод"),
        ("Éclairs", "eclair"),
        ("eclair", "éclairs"),
        ("straße", "strasse"),
        ("Œuvre", "oeuvre"),
        ("ﬁles", "file"),
        ("files", "ﬁle"),
        ("Ångström", "angstrom"),
        ("server's", "server"),
        ("l’été", "ete"),
        ("max_open_files", "opening"),
        ("x86-64", "64"),
        ("2024", "2024"),
        ("①②", "①②"),
        ("(«сервера»)…", "сервер"),
        ("key→value", "values"),
        ("🎉server🎉", "server"),
        ("東京、大阪。京都", "大阪"),
        ("हिन्दी", "हिन्दी"),
        ("x̄", "x"),
    ],
)
def test_a_snippet_shows_the_form_that_matched(written: str, query: str) -> None:
    page = f"{filler(50)} {written} {filler(50)}"
    assert unicodedata.normalize("NFC", written) in snippet_of(page, query=query)


@given(word=st.from_regex(r"[A-Za-zА-Яа-яЁё0-9]{1,12}", fullmatch=True))
def test_a_snippet_can_show_any_kind_of_word(word: str) -> None:
    page = f"{filler(50)} {word}ing {word} {filler(50)}"
    assert f"{word}ing {word}" in snippet_of(page, query=f"{word} {word}ing")


@given(sign=st.characters(exclude_categories=["Cs"]))
def test_special_characters_do_not_hide_adjacent_words(sign: str) -> None:
    written = " ".join(unicodedata.normalize("NFC", f"a{sign}b").split())
    page = f"{filler(50)} a{sign}b {filler(50)}"
    assert written in snippet_of(page, query=f"a{sign}b")


def test_a_word_does_not_match_inside_another_word() -> None:
    page = f"{filler(90)} party smart {filler(90)} art {filler(90)}"
    assert "party" not in snippet_of(page, query="art")


def test_a_snippet_shows_a_match_deep_in_a_long_given_chunk() -> None:
    text = f"{filler(3_000)} needle {filler(50)}"
    chunk = Chunk(chunk_id="c", page=1, chunk_index=0, source=text, start=0, end=len(text))
    document = make_document(pages=("other",), own_chunks=(chunk,))
    assert "needle" in build_index(document).search("needles", 1)[0].snippet


def test_a_short_chunk_is_quoted_whole_in_one_line() -> None:
    assert snippet_of("  one\n\n server\tmore ", query="server") == "one server more"


def test_a_snippet_marks_omitted_text() -> None:
    snippet = snippet_of(f"{filler(50)} server {filler(50)}", query="server")
    assert snippet.startswith("…filler")
    assert snippet.endswith("…")


def test_a_snippet_is_cut_at_word_boundaries() -> None:
    page = f"{filler(40)} server {filler(40)}"
    snippet = snippet_of(page, query="server")
    assert set(snippet.strip("…").split()) <= set(page.split())


@given(text=st.text(), start=st.integers(0, 500), length=st.integers(0, 240))
def test_an_excerpt_keeps_its_length(text: str, start: int, length: int) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    assert len(excerpt(text, start, end).snippet) <= SNIPPET_CHARS


@given(before=st.text("ab \n", max_size=900), after=st.text("ab \n", max_size=900))
def test_an_excerpt_contains_its_match(before: str, after: str) -> None:
    text = f"{before}NEEDLE{after}"
    assert "NEEDLE" in excerpt(text, len(before), len(before) + len("NEEDLE")).snippet


def test_a_word_longer_than_a_snippet_is_cut() -> None:
    assert excerpt("x" * 900, 0, 0).snippet == "x" * (SNIPPET_CHARS - 2) + "…"


def test_without_a_match_the_position_is_empty() -> None:
    assert best_span([], {"server": 1}) == (0, 0)
