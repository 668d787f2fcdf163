"""The shapes in which tools are listed: MCP's own, and those of model APIs."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.json_schema.model_api.adapt import AdaptedSchema, adapt_schema
from mcp_tools_proxy.json_schema.model_api.rules import ANTHROPIC, OPENAI

OPENAI_MAX_TOOLS = 128
"""Tools in one request to OpenAI's Chat Completions; it refuses a longer list."""

MAX_TOLD_CHARS = 500
"""How long a condition may be that is told in a description, as JSON."""

_AT_TOP = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const")
"""Conditions of a top level that model APIs refuse or that go when others are joined."""

OPENAI_MAX_DESCRIPTION_CHARS = 1_048_576
"""The description of one function; until 2025 it was 1,024."""


class ToolFormat(StrEnum):
    """The shape of a listed tool (contract §1, ``format``)."""

    MCP = "mcp"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTool:
    """A tool as a list shows it; ``warnings`` are sentences on what its format cannot say."""

    shown: JsonObject
    warnings: tuple[str, ...] = ()


def definition_of(spec: ToolSpec, tool_format: ToolFormat) -> ShownTool:
    """Show a tool in a format.

    For model APIs it goes by its alias, with an input schema that the API accepts: one that it
    refuses would fail the whole request. Pure: the same tool gives the same bytes.
    """
    if tool_format is ToolFormat.OPENAI:
        return _for_openai(spec)
    if tool_format is ToolFormat.ANTHROPIC:
        return _for_anthropic(spec)
    return ShownTool(shown=spec.as_mcp)


def list_warnings(tool_format: ToolFormat, count: int) -> tuple[str, ...]:
    """Say what is wrong with a list of ``count`` tools as a whole."""
    if tool_format is ToolFormat.OPENAI and count > OPENAI_MAX_TOOLS:
        return (
            f"{count} tools are listed, and OpenAI takes at most {OPENAI_MAX_TOOLS} in a request; "
            "narrow the list by an agent, a preset, or names",
        )
    return ()


def _for_openai(spec: ToolSpec) -> ShownTool:
    """Show it as a function tool of Chat Completions."""
    parameters = adapt_schema(spec.input_schema, OPENAI)
    description, warnings = _description(spec, parameters), parameters.warnings
    if len(description) > OPENAI_MAX_DESCRIPTION_CHARS:
        description = description[: OPENAI_MAX_DESCRIPTION_CHARS - 1] + "…"
        warnings += (f"description: is cut to {OPENAI_MAX_DESCRIPTION_CHARS} characters",)
    function = {
        "name": spec.alias,
        "description": description,
        "parameters": parameters.schema,
    }
    return ShownTool(shown={"type": "function", "function": function}, warnings=warnings)


def _for_anthropic(spec: ToolSpec) -> ShownTool:
    """Show it as a tool of the Messages API."""
    schema = adapt_schema(spec.input_schema, ANTHROPIC)
    shown = {
        "name": spec.alias,
        "description": _description(spec, schema),
        "input_schema": schema.schema,
    }
    return ShownTool(shown=shown, warnings=schema.warnings)


def _description(spec: ToolSpec, shown: AdaptedSchema) -> str:
    """Tell the model in words of what its API cannot be told: calls are held to the original."""
    if not shown.warnings:
        return spec.description
    lost = {key: spec.input_schema[key] for key in _AT_TOP if key in spec.input_schema}
    told = to_json(lost).decode()
    if not lost or len(told) > MAX_TOLD_CHARS or '"$ref"' in told:
        return spec.description
    return f"{spec.description}\n\nThe arguments also have to match: {told}".lstrip()
