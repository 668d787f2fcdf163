"""Blocked keywords (T-06)."""

import pytest

from mcp_tools_proxy.policy.blocklist import Blocked, Blocklist, Path, declared_path
from tests.support.tables import each_row

pytestmark = pytest.mark.requirement("T-06")

BLOCKLIST = Blocklist(["leak", "Утечка", "drop table"])


@each_row(
    "text",
    ["leak", "please LEAK it", "leak,", "(leak)", "ｌｅａｋ", "утечка данных", "УТЕЧКА",
     "DROP TABLE users", "a leak"],
)  # fmt: skip
def test_a_keyword_as_a_whole_word_blocks(text: str) -> None:
    assert BLOCKLIST.find({"query": text})


@each_row("text", ["leaks", "leaky", "bleak", "leak_1", "утечками", "", "drop  table"])
def test_a_part_of_a_word_does_not_block(text: str) -> None:
    assert not BLOCKLIST.find({"query": text})


@each_row(
    "hidden",
    ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\u2066", "\u200f", "\u034f",
     "\u3164", "\ufe0f", "\ufe01", "\U000e0100", "\U000e0061", "\u180e", "\x08",
     "\u200b\u00ad\u202e"],

)  # fmt: skip
@each_row("text", ["le|ak", "l|e|a|k", "|leak|", "leak|now", "l|eak|now", "у|течка",
                                  "drop| |table", "(leak|)"])  # fmt: skip
def test_hidden_characters_do_not_hide_a_keyword(text: str, hidden: str) -> None:
    assert BLOCKLIST.find({"query": text.replace("|", hidden)})


def test_hidden_characters_between_a_letter_and_its_accent_do_not_hide_a_keyword() -> None:
    assert Blocklist(["café"]).find({"query": "cafe\u200b\u0301"})


def test_hidden_characters_of_a_keyword_are_ignored() -> None:
    assert Blocklist(["le\u00adak"]).find({"query": "leak"}) == Blocked(("query",), "leak")


@each_row(
    ("text", "keyword"),
    [
        ("lеаk", "leak"),  # Cyrillic е and а
        ("LEАК", "leak"),  # Cyrillic capitals
        ("lεak", "leak"),  # Greek
        ("leⲁk", "leak"),  # Coptic
        ("lᎬak", "leak"),  # Cherokee
        ("l\u200bе\u200bak", "leak"),
        ("утечкa", "утечка"),  # Latin a
        ("УТEЧKA", "утечка"),
        ("drop tаble", "drop table"),
        ("drоp tаble", "drop table"),
    ],
)
def test_a_keyword_in_letters_of_several_scripts_blocks(text: str, keyword: str) -> None:
    found = BLOCKLIST.find({"query": f"please {text} it"})
    assert found == Blocked(("query",), keyword)


@each_row(
    ("keyword", "text"),
    [
        ("cop", "вынеси сор"),  # a Russian word that resembles it letter by letter
        ("сор", "a cop"),
        ("pop", "рор"),
        ("bok", "βοκ"),
        ("cop", "сор и lеаk"),  # next to another word with mixed scripts
        ("cop", "сорt"),
        ("cop", "сор_cop"),
    ],
)
def test_a_word_in_one_script_is_not_converted(keyword: str, text: str) -> None:
    assert not Blocklist([keyword]).find({"query": text})


def test_hidden_characters_and_lookalikes_are_searched_in_linear_time() -> None:
    """The number of steps is bounded: a quadratic search would take hours."""
    text = ("lеа\u200b" * 100_000) + ("\u200b" * 200_000) + "у" * 200_000
    assert not BLOCKLIST.find({"query": text})


@each_row(
    "arguments",
    [{"a": {"b": ["x", {"c": "leak"}]}}, {"a": [["leak"]]}, {"x": 1, "y": None, "z": "leak"}],
)
def test_nested_strings_are_searched(arguments: dict[str, object]) -> None:
    assert BLOCKLIST.find(arguments)


@each_row("name", ["tenant_id", "user_id", "doc_id", "section_id", "anchor_chunk_id"])
def test_identifiers_are_not_searched(name: str) -> None:
    assert not BLOCKLIST.find({name: "leak"})


@each_row("arguments", [{"a": 1}, {"a": True}, {"a": None}, {"leak": "x"}, {}])
def test_arguments_that_are_not_strings_do_not_block(arguments: dict[str, object]) -> None:
    assert not BLOCKLIST.find(arguments)


@each_row("keywords", [[], [""]])
def test_without_keywords_the_blocklist_is_off(keywords: list[str]) -> None:
    assert not Blocklist(keywords).find({"query": "leak"})


def test_a_keyword_is_not_a_pattern() -> None:
    assert not Blocklist(["l.ak"]).find({"query": "leak"})


def test_a_keyword_behind_a_million_marks_is_found() -> None:
    assert BLOCKLIST.find({"query": "a" + "\u0315\u0300\u05ae" * 300_000 + " leak"})


def test_a_long_text_is_recognized_as_long() -> None:
    assert (BLOCKLIST.is_long({"q": "x" * 30_000}), BLOCKLIST.is_long({"q": "x"})) == (True, False)


@each_row(
    ("arguments", "found"),
    [
        ({"q": "a LEAK"}, Blocked(("q",), "leak")),
        ({"a": "x", "q": {"b": ["x", {"c": "УТЕЧКА"}]}}, Blocked(("q", "b", 1, "c"), "утечка")),
    ],
)
def test_a_match_names_the_path_and_the_keyword(
    arguments: dict[str, object], found: Blocked
) -> None:
    assert BLOCKLIST.find(arguments) == found


@each_row("text", ["leak", "leaks", "le", "leak it", "lead", "LEAK\u200bS", "l\u0435ad"])
def test_the_longest_of_keywords_with_the_same_prefix_is_found(text: str) -> None:
    keywords = ["le", "leak", "leaks", "leak it", "lead", *(f"lea{n}" for n in range(500))]
    folded = text.lower().replace("\u200b", "").replace("\u0435", "e")
    assert Blocklist(keywords).find({"q": f"a {text} b"}) == Blocked(("q",), folded)


def test_a_keyword_can_be_very_long() -> None:
    assert Blocklist(["a" * 3_000, "a" * 3_000 + "b"]).find({"q": "a" * 3_000})


def test_a_text_in_another_script_counts_as_long_sooner() -> None:
    assert BLOCKLIST.is_long({"q": "\ufdfa" * 5_000})


def test_without_keywords_texts_never_count_as_long() -> None:
    assert not Blocklist([]).is_long({"q": "x" * 30_000})


@each_row(
    ("path", "spelt"),
    [
        (("query",), "query"),
        (("filter", "names", 2), "filter.names[2]"),
        (("filter", "names", 2, "secret"), "filter.names[2]"),
        (("filter", "secret"), "filter"),
        (("filter", 3, "secret"), "filter[3]"),
        (("odd", "secret"), "odd"),
        (("secret", "query"), ""),
    ],
)
def test_a_path_is_shown_as_far_as_the_schema_declares_it(path: Path, spelt: str) -> None:
    names = {"type": "array", "items": {"type": "string"}}
    schema = {
        "properties": {
            "query": {"type": "string"},
            "filter": {"properties": {"names": names}},
            "odd": True,
        }
    }
    assert declared_path(path, schema) == spelt


@each_row("schema", [{}, {"properties": 5}])
def test_a_path_outside_the_schema_is_not_shown(schema: dict[str, object]) -> None:
    assert declared_path(("query",), schema) == ""
