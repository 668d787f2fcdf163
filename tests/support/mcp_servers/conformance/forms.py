"""The server's requests: forms, sampling, and the caller's roots."""

from typing import Any

import mcp_types as t

Schema = dict[str, Any]
OPTIONS = ["option1", "option2", "option3"]
CHOICES = [
    {"const": f"value{number}", "title": f"{word} choice"}
    for number, word in enumerate(["First", "Second", "Third"], 1)
]

DEFAULTS: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "A name", "default": "John Doe"},
        "age": {"type": "integer", "description": "Years", "default": 30},
        "score": {"type": "number", "description": "A score", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
"""A default of each primitive type (SEP-1034)."""

ENUMS: Schema = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": CHOICES},
        "legacyEnum": {
            "type": "string",
            "enum": OPTIONS,
            "enumNames": ["Option one", "Option two", "Option three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": CHOICES}},
    },
    "required": [],
}
"""Each spelling of a choice (SEP-1330)."""


def fields(**types: str) -> Schema:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in types.items()},
        "required": list(types),
    }


def form(message: str, schema: Schema) -> t.ElicitRequest:
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def text(prompt: str, max_tokens: int = 100) -> t.CreateMessageRequest:
    message = t.SamplingMessage(role="user", content=t.TextContent(text=prompt))
    return t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def roots() -> t.ListRootsRequest:
    return t.ListRootsRequest()
