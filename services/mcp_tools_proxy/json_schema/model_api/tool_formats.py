"""The formats in which tools are listed: MCP's, OpenAI's, Anthropic's and Gemini's."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.json_schema.model_api.argument_names import rename_properties
from mcp_tools_proxy.json_schema.model_api.gemini_schema import gemini_schema
from mcp_tools_proxy.json_schema.model_api.schema_adapter import AdaptedSchema, adapt_schema
from mcp_tools_proxy.json_schema.model_api.schema_rules import ANTHROPIC, OPENAI

OPENAI_MAX_TOOLS = 128
"""Tools in one request to OpenAI's Chat Completions; it refuses a longer list."""

MAX_CONDITION_CHARS = 500
"""Longest condition, as JSON, that is appended to a description."""

_TOP_LEVEL_CONDITIONS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const")
"""Keywords of a top level that model APIs refuse, or that flattening may remove."""

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
    """A tool's definition in one format; ``warnings`` name what the format cannot express."""

    definition: JsonObject
    warnings: tuple[str, ...] = ()


def definition_of(spec: ToolSpec, tool_format: ToolFormat) -> FormattedTool:
    """Return a tool's definition in a format.

    For model APIs it has its alias as name, or the name that the preset gives it, and an input
    schema that the API accepts: one refused schema would fail the whole request. Pure: the same
    tool gives the same bytes.
    """
    if tool_format is ToolFormat.OPENAI:
        return _for_openai(spec)
    if tool_format is ToolFormat.ANTHROPIC:
        return _for_anthropic(spec)
    if tool_format is ToolFormat.GEMINI:
        return _for_gemini(spec)
    return FormattedTool(definition=spec.as_mcp)


def list_warnings(tool_format: ToolFormat, count: int) -> tuple[str, ...]:
    """Return warnings that concern a list of ``count`` tools as a whole."""
    if tool_format is ToolFormat.OPENAI and count > OPENAI_MAX_TOOLS:
        return (
            f"{count} tools are listed, but OpenAI accepts at most {OPENAI_MAX_TOOLS} per request; "
            "narrow the list by an agent, a preset, or names",
        )
    return ()


def _for_openai(spec: ToolSpec) -> FormattedTool:
    """Return a function tool of Chat Completions."""
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
    """Return a tool of the Messages API."""
    schema = adapt_schema(spec.input_schema, ANTHROPIC, spec.argument_aliases)
    shown = {
        "name": spec.model_name,
        "description": _description(spec, schema),
        "input_schema": schema.schema,
    }
    return FormattedTool(definition=shown, warnings=schema.warnings)


def _for_gemini(spec: ToolSpec) -> FormattedTool:
    """Return a function declaration of the Gemini API; without parameters it has none."""
    parameters = gemini_schema(spec.input_schema, spec.argument_aliases)
    shown: dict[str, object] = {"name": spec.gemini_name, "description": spec.description}
    if parameters is not None:
        shown["parameters"] = parameters
    return FormattedTool(definition=shown)


def _description(spec: ToolSpec, shown: AdaptedSchema) -> str:
    """Return the description, with the top-level conditions that the adapted schema lost appended.

    Calls are checked against the original schema, so the model should know these conditions.
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
