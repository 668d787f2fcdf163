"""Telling a sender what is wrong."""

import pytest
from pydantic import BaseModel, ValidationError

from mcp_tools_proxy.wire.identifiers import Identifier, is_trace_id
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of


class Sample(BaseModel):
    name: Identifier
    numbers: list[int] = []


def first_error(value: object) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(value)
    error = caught.value.errors()[0]
    return place_of(error, whole="body"), problem_of(error)


@pytest.mark.parametrize(
    ("value", "place", "problem"),
    [
        ({}, "name", "is missing"),
        ([], "body", "should be a JSON object"),
        ({"name": "a\0"}, "name", "holds a character that is not allowed"),
        ({"name": "a", "numbers": [1, "secret"]}, "numbers.1", "input should be a valid integer, "
         "unable to parse string as an integer"),
    ],
)  # fmt: skip
def test_place_and_problem_are_named_without_the_value(
    value: object, place: str, problem: str
) -> None:
    assert first_error(value) == (place, problem)


@pytest.mark.parametrize("text", ["a", "~" * 128, '!"#'])
def test_printable_ascii_is_a_trace_id(text: str) -> None:
    assert is_trace_id(text)


@pytest.mark.parametrize("text", ["", "a b", "a\n", "é", "~" * 129, "\x7f"])
def test_anything_else_is_no_trace_id(text: str) -> None:
    assert not is_trace_id(text)
