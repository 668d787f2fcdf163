import math

from mcp_tools_proxy.wire.strict_json import may_overflow, whole_number, without_infinity
from tests.support.tables import each_row


@each_row("text", ["1e400", "-1E+999", "1" * 309, "[0.5e310]"])
def test_numbers_beyond_the_float_range_are_suspected(text: str) -> None:
    assert may_overflow(text.encode())


@each_row("text", ["1e99", "12345678901234567890", "1e-400", "{}"])
def test_ordinary_numbers_are_not_suspected(text: str) -> None:
    assert not may_overflow(text.encode())


def test_infinities_at_any_position_become_null() -> None:
    given = {"a": [1, math.inf, {"b": -math.inf}], "c": 1.5, "d": "1e400", "e": None}

    assert without_infinity(given) == {
        "a": [1, None, {"b": None}],
        "c": 1.5,
        "d": "1e400",
        "e": None,
    }


@each_row(("value", "converted"), [(3.0, 3), (3, 3), (3.5, 3.5), (True, True), ("3.0", "3.0")])
def test_a_float_without_a_fraction_becomes_an_integer(value: object, converted: object) -> None:
    assert repr(whole_number(value)) == repr(converted)
