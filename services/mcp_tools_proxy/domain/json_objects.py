"""JSON objects as callers and operators are shown them."""

from collections.abc import Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


def without_none(fields: Mapping[str, ValueT | None]) -> dict[str, ValueT]:
    """Return the fields that have a value: what is not known is left out, never null."""
    return {key: value for key, value in fields.items() if value is not None}
