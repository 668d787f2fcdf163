"""Tool list formats: MCP, OpenAI, Anthropic and Gemini.

Gemini's ``Schema`` is a small subset of OpenAPI's. From its documentation and refusals: each node
has exactly one type or ``anyOf`` (in Vertex AI without other keywords); null is ``nullable``; enums
are non-empty texts; few formats exist; ``required`` names only existing properties; an unknown
keyword fails the whole request.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.json_schema.api_rules import ANTHROPIC, GEMINI, OPENAI
from mcp_tools_proxy.wire.json_schema.argument_names import Aliases, rename_properties
from mcp_tools_proxy.wire.json_schema.plain_schema import REJECT_ALL, plain_schema
from mcp_tools_proxy.wire.json_schema.schema_adapter import AdaptedSchema, adapt_schema

OPENAI_MAX_TOOLS = 128
"""Tools in one request to OpenAI's Chat Completions; longer lists are refused."""

MAX_CONDITION_CHARS = 500
"""Maximum length of a condition, as JSON, that is appended to a description."""

_TOP_LEVEL_CONDITIONS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const")
"""Top-level keywords that model APIs refuse, or that flattening can remove."""

OPENAI_MAX_DESCRIPTION_CHARS = 1_048_576
"""Length of one function's description; until 2025 it was 1,024."""


class ToolFormat(StrEnum):
    """Format of the tools in a list: MCP or that of a model API."""

    MCP = "mcp"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedTool:
    """A tool's definition in one format; ``warnings`` name parts lost in that format."""

    definition: JsonObject
    warnings: tuple[str, ...] = ()


def definition_of(spec: ToolSpec, tool_format: ToolFormat) -> FormattedTool:
    """Return a tool's definition in a format.

    For model APIs, its name is the alias or the preset's name, and the API accepts its input
    schema: one refused schema would fail the whole request. The same tool gives the same bytes.
    """
    if tool_format is ToolFormat.OPENAI:
        return _for_openai(spec)
    if tool_format is ToolFormat.ANTHROPIC:
        return _for_anthropic(spec)
    if tool_format is ToolFormat.GEMINI:
        return _for_gemini(spec)
    return FormattedTool(definition=spec.as_mcp)


def list_warnings(tool_format: ToolFormat, count: int) -> tuple[str, ...]:
    """Return warnings about a list of ``count`` tools as a whole."""
    if tool_format is ToolFormat.OPENAI and count > OPENAI_MAX_TOOLS:
        return (
            f"{count} tools are listed, but OpenAI accepts at most {OPENAI_MAX_TOOLS} per request; "
            "narrow the list by an agent, a preset, or names",
        )
    return ()


def _for_openai(spec: ToolSpec) -> FormattedTool:
    parameters = adapt_schema(spec.input_schema, OPENAI, spec.argument_aliases)
    description, warnings = _description(spec, parameters), parameters.warnings
    if len(description) > OPENAI_MAX_DESCRIPTION_CHARS:
        description = description[: OPENAI_MAX_DESCRIPTION_CHARS - 1] + "…"
        warnings += (f"description: is cut to {OPENAI_MAX_DESCRIPTION_CHARS} characters",)
    function = {
        "name": spec.model_name,
        "description": description,
        "parameters": parameters.schema,
    }
    return FormattedTool(definition={"type": "function", "function": function}, warnings=warnings)


def _for_anthropic(spec: ToolSpec) -> FormattedTool:
    schema = adapt_schema(spec.input_schema, ANTHROPIC, spec.argument_aliases)
    shown = {
        "name": spec.model_name,
        "description": _description(spec, schema),
        "input_schema": schema.schema,
    }
    return FormattedTool(definition=shown, warnings=schema.warnings)


def _for_gemini(spec: ToolSpec) -> FormattedTool:
    """Return a function declaration of the Gemini API, with ``parameters`` only if it has any."""
    parameters = gemini_schema(spec.input_schema, spec.argument_aliases)
    shown: dict[str, object] = {"name": spec.gemini_name, "description": spec.description}
    if parameters is not None:
        shown["parameters"] = parameters
    return FormattedTool(definition=shown)


def _description(spec: ToolSpec, shown: AdaptedSchema) -> str:
    """Return the description with the lost top-level conditions appended.

    The model should know them, because calls are checked against the original schema.
    """
    if not shown.warnings:
        return spec.description
    lost = {
        key: spec.input_schema[key] for key in _TOP_LEVEL_CONDITIONS if key in spec.input_schema
    }
    condition = to_json(rename_properties(lost, shown.renamed)).decode()
    if not lost or len(condition) > MAX_CONDITION_CHARS or '"$ref"' in condition:
        return spec.description
    return f"{spec.description}\n\nThe arguments also have to match: {condition}".lstrip()


MAX_LISTED_VALUES = 200
"""Characters of allowed values in a description, used for numbers, which cannot be an enum."""

Schema = dict[str, Any]

_BOUNDS = {
    "STRING": ("minLength", "maxLength"),
    "INTEGER": ("minimum", "maximum"),
    "NUMBER": ("minimum", "maximum"),
    "ARRAY": ("minItems", "maxItems"),
    "OBJECT": ("minProperties", "maxProperties"),
    "BOOLEAN": (),
}
_FORMATS = {
    "STRING": ("date-time",),
    "INTEGER": ("int32", "int64"),
    "NUMBER": ("float", "double"),
}
_TYPES = tuple(_BOUNDS)
_ANYTHING = ("STRING", "NUMBER", "BOOLEAN", "OBJECT", "ARRAY")


def gemini_schema(schema: JsonObject, aliases: Aliases | None = None) -> Schema | None:
    """Return the parameters of a function; None for a function without any.

    Accepts at least the values of the original, except that a property of any type is narrowed to
    Gemini's types.
    """
    shown = _node(plain_schema(schema, GEMINI, aliases))
    return shown if shown is not None and shown.get("properties") else None


def _node(plain: Mapping[str, Any]) -> Schema | None:
    """Return a plain node in Gemini's form; None for one that accepts nothing."""
    if plain == REJECT_ALL:
        return None
    description = plain.get("description")
    described = {"description": description} if isinstance(description, str) else {}
    branches = plain.get("anyOf")
    if isinstance(branches, list) and "type" not in plain:
        return _choice(branches, described)
    kind = _type_of(plain)
    if kind == "NULL":
        return {"type": "STRING", **described, "nullable": True}
    if kind is None:
        return _any_of([_of_type(it, {}) for it in _ANYTHING], described)
    return _of_type(kind, plain) | _with_values(kind, plain, described)


def _choice(branches: list[Any], described: Schema) -> Schema | None:
    """Return the alternatives; null is removed and makes the others ``nullable``."""
    not_null = [it for it in branches if it.get("type") != "null"]
    shown = [it for it in map(_node, not_null) if it is not None]
    if not shown:
        return {"type": "STRING", **described, "nullable": True} if branches != not_null else None
    flat = [part for it in shown for part in it.get("anyOf", [it])]
    if len(not_null) < len(branches):
        flat = [{**it, "nullable": True} for it in flat]
    return _any_of(flat, described)


def _any_of(flat: list[Schema], described: Schema) -> Schema:
    """Return an ``anyOf``; its first part has the description of the whole."""
    distinct = list({repr(it): it for it in flat}.values())
    first, *others = distinct
    first = {**described, **first} if others else {**first, **described}
    return {"anyOf": [first, *others]} if others else first


def _type_of(plain: Mapping[str, Any]) -> str | None:
    kind = plain.get("type")
    if isinstance(kind, str):
        return kind.upper() if kind.upper() in (*_TYPES, "NULL") else None
    if "properties" in plain or "required" in plain:
        return "OBJECT"
    if "items" in plain:
        return "ARRAY"
    values = _values(plain)
    if values and all(isinstance(it, str) for it in values):
        return "STRING"
    if values and all(isinstance(it, int | float) and type(it) is not bool for it in values):
        return "NUMBER"
    return None


def _values(plain: Mapping[str, Any]) -> list[Any]:
    if "const" in plain:
        return [plain["const"]]
    values = plain.get("enum")
    return values if isinstance(values, list) else []


def _of_type(kind: str, plain: Mapping[str, Any]) -> Schema:
    node: Schema = {"type": kind}
    if plain.get("format") in _FORMATS.get(kind, ()):
        node["format"] = plain["format"]
    for bound in _BOUNDS[kind]:
        value = plain.get(bound)
        if isinstance(value, int | float) and type(value) is not bool:
            node[bound] = value
    if kind == "ARRAY":
        items = plain.get("items")
        shown = _node(items) if isinstance(items, Mapping) else None
        node["items"] = shown or {"type": "STRING"}
    if kind == "OBJECT":
        node |= _members(plain)
    return node


def _members(plain: Mapping[str, Any]) -> Schema:
    """Return the properties that accept values, and the required ones among them."""
    declared = plain.get("properties")
    nodes = {k: _node(v) for k, v in declared.items()} if isinstance(declared, Mapping) else {}
    properties = {name: node for name, node in nodes.items() if node is not None}
    if not properties:
        return {}
    required = plain.get("required")
    names = [it for it in required if it in properties] if isinstance(required, list) else []
    return {"properties": properties, **({"required": names} if names else {})}


def _with_values(kind: str, plain: Mapping[str, Any], described: Schema) -> Schema:
    """Return an enum for texts, or a description that lists the values of another type."""
    values = _values(plain)
    if not values:
        return described
    if kind == "STRING":
        texts = [it for it in values if isinstance(it, str)]
        nullable = {"nullable": True} if None in values else {}
        return {**described, **nullable, **({"enum": texts} if all(texts) else {})}
    listed = ", ".join(to_json(it).decode() for it in values)
    if len(listed) > MAX_LISTED_VALUES:
        return described
    text = f"One of: {listed}" if len(values) > 1 else f"Always {listed}"
    return {"description": f"{described.get('description', '')} {text}.".lstrip()}
