"""Argument types that several document tools share."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from mcp_tools_proxy.wire.identifiers import Identifier, id_of
from mcp_tools_proxy.wire.strict_json import whole_number

LARGEST = 10**18
"""Larger integers are clamped to it; no document has as many pages, characters or sections."""

_INTEGER = re.compile(r"-?[0-9]{1,4300}")


def _integer(value: object) -> object:
    """Validate an integer, also one written as ``3.0`` or as a string, which models do (T-01)."""
    value = whole_number(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("should be an integer")  # noqa: TRY004 - pydantic reports ValueError
    return max(-LARGEST, min(value, LARGEST))


Natural = Annotated[int, Field(ge=0), BeforeValidator(_integer)]
"""An integer, 0 or more."""

Positive = Annotated[int, Field(ge=1), BeforeValidator(_integer)]
"""An integer, 1 or more."""

Id = Annotated[Identifier, BeforeValidator(id_of)]
"""An id; an integer counts as its digits."""

StartChar = Annotated[
    Natural, Field(description="To continue a truncated answer: its next_start_char.")
]
