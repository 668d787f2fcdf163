import pytest
from pydantic import BaseModel, ValidationError

from mcp_tools_proxy.wire.identifiers import Identifier, is_trace_id
from mcp_tools_proxy.wire.problem_texts import first_of, join_first, place_of, problem_of
from tests.support.tables import each_row


class Sample(BaseModel):
    name: Identifier
    numbers: list[int] = []


def first_error(value: object) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(value)
    error = caught.value.errors()[0]
    return place_of(error, whole="body"), problem_of(error)


@each_row(
    ("value", "place", "problem"),
    [
        ({}, "name", "is missing"),
        ([], "body", "should be a JSON object"),
        ({"name": "a\0"}, "name", "holds a character that is not allowed"),
        ({"name": "a", "numbers": [1, "secret"]}, "numbers.1", "should be an integer"),
    ],
)  # fmt: skip
def test_path_and_problem_are_named_without_the_value(
    value: object, place: str, problem: str
) -> None:
    assert first_error(value) == (place, problem)


@each_row("text", ["a", "~" * 128, '!"#'])
def test_printable_ascii_is_a_valid_trace_id(text: str) -> None:
    assert is_trace_id(text)


@each_row("text", ["", "a b", "a\n", "é", "~" * 129, "\x7f"])
def test_other_values_are_invalid_trace_ids(text: str) -> None:
    assert not is_trace_id(text)


@each_row(
    ("count", "listed"),
    [(0, ""), (1, "0"), (5, "0; 1; 2; 3; 4"), (7, "0; 1; 2; 3; 4; and 2 more")],
)
def test_the_first_five_problems_are_joined_and_the_others_counted(count: int, listed: str) -> None:
    assert join_first(range(count)) == listed


def test_the_text_for_omitted_items_can_be_customized() -> None:
    words = join_first("abcd", str.upper, limit=1, separator=", ", more=" (and {} more)")
    assert words == "A (and 3 more)"


@each_row(("count", "listed"), [(0, ()), (2, ("0", "1")), (3, ("0", "1", "1 left out"))])
def test_one_entry_replaces_all_entries_beyond_the_limit(
    count: int, listed: tuple[str, ...]
) -> None:
    assert first_of(range(count), 2, str, lambda left_out: f"{left_out} left out") == listed
