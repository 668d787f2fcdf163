"""Hyphens at line ends (contract §5)."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.hyphens import DIVISION, join_divided_words
from tests.support.tables import each_row


def joined(text: str, language: str | None = None) -> str:
    """Return ``text`` joined; ``/`` is a division."""
    return join_divided_words([text.replace("/", DIVISION)], language)[0]


@each_row(
    ("text", "expected"),
    [
        ("The infor/mation is new", "The information is new"),
        ("a self/contained part", "a self-contained part"),
        ("the state-of-the/art tool", "the state-of-the-art tool"),
        ("state-of/the/art", "state-of-the-art"),
        ("a non/linear term", "a non-linear term"),
        ("a nonlinear one, a non/linear term", "a nonlinear one, a nonlinear term"),
        ("from A/B to C", "from A-B to C"),
        ("the Anglo/Saxon rules", "the Anglo-Saxon rules"),
        ("INFOR/MATION", "INFORMATION"),
        ("the program/ming of it", "the programming of it"),
        ("a long/term plan", "a long-term plan"),
        ("the blue/green deploy, a bluegreen one", "the bluegreen deploy, a bluegreen one"),
        ("a walk/through with a walk-through", "a walk-through with a walk-through"),
        ("x (/) y", "x (-) y"),
        ("a/1 and a", "a-1 and a"),
    ],
)
def test_a_hyphen_stays_where_both_halves_are_words(text: str, expected: str) -> None:
    assert joined(text) == expected


@each_row(
    ("language", "text", "expected"),
    [
        ("de", "die Infor/mationen", "die Informationen"),
        ("de", "die Vor/und Nachteile", "die Vor- und Nachteile"),
        ("de", "der Freund/oder Feind", "der Freund- oder Feind"),
        ("de", "die Stadt/sowie Landkreise", "die Stadt- sowie Landkreise"),
        ("de", "er ist ge/sund", "er ist gesund"),
        ("de", "ein FAT/Laufwerk", "ein FAT-Laufwerk"),
        ("fr", "peut/être", "peut-être"),
        ("nl", "de tele/foon", "de telefoon"),
        ("xx", "the long/term plan of the firm", "the long-term plan of the firm"),
        (None, "der Vertrag und die Infor/mation ist nicht neu", None),
    ],
)
def test_word_lists_are_chosen_by_language(
    language: str | None, text: str, expected: str | None
) -> None:
    assert joined(text, language) == (expected or text.replace("/", ""))


def test_words_of_other_pages_decide() -> None:
    pages = ["the foobaz and", f"the foo{DIVISION}baz"]
    assert join_divided_words(pages) == ("the foobaz and", "the foobaz")


@given(st.lists(st.text(alphabet=f"aBé1- \n{DIVISION}"), max_size=4))
def test_only_divisions_change(pages: list[str]) -> None:
    for before, after in zip(pages, join_divided_words(pages), strict=True):
        assert DIVISION not in after
        assert after.replace("-", "") == before.replace("-", "").replace(DIVISION, "")
