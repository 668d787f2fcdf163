"""JSON objects for callers and operators."""

from collections.abc import Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


def without_none(fields: Mapping[str, ValueT | None]) -> dict[str, ValueT]:
    """Return the fields with a value; unknown fields are omitted instead of null."""
    return {key: value for key, value in fields.items() if value is not None}
