"""Numbers of JSON that are too large for a float: they parse as infinity, which JSON cannot say."""

import math

_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * 309
_HALF_LONG = b"0" * 209
"""Digits before the point that an exponent of two digits can make too many."""


def may_overflow(data: bytes) -> bool:
    """Tell whether the JSON in ``data`` may hold such a number; most does not, and that is fast."""
    shape = data.translate(_SHAPE)
    # not ``in``, which takes four times as long: it tries first whether it is given a number
    if shape.find(b"000") < 0:
        return False
    if shape.find(b"e000") >= 0 or shape.find(b"e+000") >= 0:
        return True
    return shape.find(_HALF_LONG) >= 0 and (
        _LONG in shape or _HALF_LONG + b"e" in shape or _HALF_LONG + b"." in shape
    )


def has_long_digits(data: bytes) -> bool:
    """Tell whether the JSON in ``data`` has more digits in a row than a float's largest number."""
    return _LONG in data.translate(_SHAPE)


def without_infinity(value: object) -> object:
    """Give parsed JSON with null in the place of each infinity, as JavaScript writes it."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: without_infinity(item) for key, item in value.items()}
        case list():
            return [without_infinity(item) for item in value]
    return value
