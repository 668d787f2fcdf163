"""Pydantic types of a trace_id: lenient in requests, strict in responses."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from mcp_tools_proxy.wire.identifiers import TRACE_ID_PATTERN
from mcp_tools_proxy.wire.tracing import is_text_or_number


def _text_or_number(value: object) -> object:
    if not is_text_or_number(value):
        raise ValueError("should be a string or a number")
    return value


TraceId = Annotated[str, StringConstraints(pattern=TRACE_ID_PATTERN)]
RequestTraceId = Annotated[
    object,
    AfterValidator(_text_or_number),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}),
    Field(
        description=(
            "Any text or number. Characters other than printable ASCII become _, characters "
            "after the first 128 are dropped, and an empty trace id counts as absent."
        )
    ),
]
