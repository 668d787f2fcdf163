import math

import pytest

from mcp_tools_proxy.wire.strict_json import may_overflow, without_infinity


@pytest.mark.parametrize("text", ["1e400", "-1E+999", "1" * 309, "[0.5e310]"])
def test_numbers_beyond_a_float_are_suspected(text: str) -> None:
    assert may_overflow(text.encode())


@pytest.mark.parametrize("text", ["1e99", "12345678901234567890", "1e-400", "{}"])
def test_ordinary_numbers_are_not(text: str) -> None:
    assert not may_overflow(text.encode())


def test_infinities_become_null_wherever_they_are() -> None:
    given = {"a": [1, math.inf, {"b": -math.inf}], "c": 1.5, "d": "1e400", "e": None}

    assert without_infinity(given) == {
        "a": [1, None, {"b": None}],
        "c": 1.5,
        "d": "1e400",
        "e": None,
    }
