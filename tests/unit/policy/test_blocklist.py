"""Blocked keywords (T-06)."""

import pytest

from mcp_tools_proxy.policy.blocklist import Blocked, Blocklist, Path, declared_path

pytestmark = pytest.mark.requirement("T-06")

BLOCKLIST = Blocklist(["leak", "Утечка", "drop table"])


@pytest.mark.parametrize(
    "text",
    ["leak", "please LEAK it", "leak,", "(leak)", "ｌｅａｋ", "утечка данных", "УТЕЧКА",
     "DROP TABLE users", "a leak"],
)  # fmt: skip
def test_a_keyword_as_a_whole_word_blocks(text: str) -> None:
    assert BLOCKLIST.find({"query": text})


@pytest.mark.parametrize(
    "text", ["leaks", "leaky", "bleak", "leak_1", "утечками", "", "drop  table"]
)
def test_a_part_of_a_word_does_not_block(text: str) -> None:
    assert not BLOCKLIST.find({"query": text})


@pytest.mark.parametrize(
    "arguments",
    [{"a": {"b": ["x", {"c": "leak"}]}}, {"a": [["leak"]]}, {"x": 1, "y": None, "z": "leak"}],
)
def test_nested_strings_are_searched(arguments: dict[str, object]) -> None:
    assert BLOCKLIST.find(arguments)


@pytest.mark.parametrize(
    "name", ["tenant_id", "user_id", "doc_id", "section_id", "anchor_chunk_id"]
)
def test_identifiers_are_not_searched(name: str) -> None:
    assert not BLOCKLIST.find({name: "leak"})


@pytest.mark.parametrize("arguments", [{"a": 1}, {"a": True}, {"a": None}, {"leak": "x"}, {}])
def test_what_is_no_string_argument_does_not_block(arguments: dict[str, object]) -> None:
    assert not BLOCKLIST.find(arguments)


@pytest.mark.parametrize("keywords", [[], [""]])
def test_no_keywords_means_off(keywords: list[str]) -> None:
    assert not Blocklist(keywords).find({"query": "leak"})


def test_a_keyword_is_no_pattern() -> None:
    assert not Blocklist(["l.ak"]).find({"query": "leak"})


def test_a_keyword_behind_a_million_marks_is_found() -> None:
    assert BLOCKLIST.find({"query": "a" + "\u0315\u0300\u05ae" * 300_000 + " leak"})


def test_a_long_text_is_known_to_be_long() -> None:
    assert (BLOCKLIST.is_long({"q": "x" * 30_000}), BLOCKLIST.is_long({"q": "x"})) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"q": "a LEAK"}, Blocked(("q",), "leak")),
        ({"a": "x", "q": {"b": ["x", {"c": "УТЕЧКА"}]}}, Blocked(("q", "b", 1, "c"), "утечка")),
    ],
)
def test_what_is_found_says_where_and_which(arguments: dict[str, object], found: Blocked) -> None:
    assert BLOCKLIST.find(arguments) == found


def test_without_keywords_no_text_is_long() -> None:
    assert not Blocklist([]).is_long({"q": "x" * 30_000})


@pytest.mark.parametrize(
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
def test_a_path_is_spelt_as_far_as_it_is_declared(path: Path, spelt: str) -> None:
    names = {"type": "array", "items": {"type": "string"}}
    schema = {
        "properties": {
            "query": {"type": "string"},
            "filter": {"properties": {"names": names}},
            "odd": True,
        }
    }
    assert declared_path(path, schema) == spelt


@pytest.mark.parametrize("schema", [{}, {"properties": 5}])
def test_a_schema_that_declares_nothing_names_nothing(schema: dict[str, object]) -> None:
    assert declared_path(("query",), schema) == ""
