from mcp_tools_proxy.wire.problem_texts import COMPARED_CHARS, COMPARED_NAMES, closest_match
from tests.support.tables import each_row


@each_row(
    ("name", "meant"),
    [("note", "notes"), ("Notes", "notes"), ("tikets", "tickets"), ("weather", None), ("", None)],
)
def test_the_most_similar_name_is_returned(name: str, meant: str | None) -> None:
    assert closest_match(name, ["tickets", "notes"]) == meant


def test_without_known_names_the_result_is_empty() -> None:
    assert closest_match("notes", ()) is None


def test_only_the_first_names_are_compared() -> None:
    many = [f"{index}" for index in range(COMPARED_NAMES)]
    assert (
        closest_match("note", [*many, "notes"]),
        closest_match("note", [*many[1:], "notes"]),
    ) == (
        None,
        "notes",
    )


def test_a_long_name_is_never_returned() -> None:
    long = "n" * (COMPARED_CHARS + 1)
    assert (closest_match(long, [long]), closest_match(long, [long[1:]])) == (None, long[1:])
