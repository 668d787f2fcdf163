from typing import Any

Schema = dict[str, Any]

DIALECT_2020_12: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Keywords that must be preserved (SEP-1613, SEP-2106)."""

MIRRORED: Schema = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}
"""An argument that callers repeat in the header ``Mcp-Param-Region`` (SEP-2243)."""


def of_properties(properties: Schema) -> Schema:
    """Build a schema whose properties are all required."""
    schema: Schema = {"type": "object", "properties": properties}
    return schema | ({"required": list(properties)} if properties else {})
