import pytest

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.wire.json_schema.tool_formats import (
    OPENAI_MAX_DESCRIPTION_CHARS,
    OPENAI_MAX_TOOLS,
    ToolFormat,
    definition_of,
    list_warnings,
)
from tests.support.tables import each_row

NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"a b": {"type": "array"}},
    "required": ["a b"],
}


def make_spec(description: str = "Looks things up", schema: JsonObject = NO_ARGUMENTS) -> ToolSpec:
    return ToolSpec(
        name="notes:look up",
        alias="notes_look_up_12345678",
        description=description,
        input_schema=schema,
        server_id="notes",
    )


def test_the_mcp_format_equals_that_of_mcp_lists() -> None:
    spec = make_spec(schema=SCHEMA)
    definition = definition_of(spec, ToolFormat.MCP)
    assert (definition.definition, definition.warnings) == (spec.as_mcp, ())


@pytest.mark.requirement("A-12")
def test_the_openai_format_is_a_function_with_the_alias() -> None:
    assert definition_of(make_spec(), ToolFormat.OPENAI).definition == {
        "type": "function",
        "function": {
            "name": "notes_look_up_12345678",
            "description": "Looks things up",
            "parameters": {"type": "object", "properties": {}},
        },
    }


@pytest.mark.requirement("A-12")
def test_the_anthropic_format_is_a_tool_with_the_alias() -> None:
    assert definition_of(make_spec(), ToolFormat.ANTHROPIC).definition == {
        "name": "notes_look_up_12345678",
        "description": "Looks things up",
        "input_schema": {"type": "object", "properties": {}},
    }


@pytest.mark.requirement("A-12")
def test_the_gemini_format_is_a_function_that_omits_empty_parameters() -> None:
    assert definition_of(make_spec(), ToolFormat.GEMINI).definition == {
        "name": "notes_look_up_12345678",
        "description": "Looks things up",
    }


def test_each_format_has_a_schema_adapted_to_its_api() -> None:
    spec = make_spec(schema={**EITHER, "not": {"required": ["x"]}})
    openai = definition_of(spec, ToolFormat.OPENAI)
    anthropic = definition_of(spec, ToolFormat.ANTHROPIC)
    assert ['"#/not"' in it for it in openai.warnings] == [False, True]
    assert ['"#/not"' in it for it in anthropic.warnings] == [False]


def test_a_schema_without_changes_is_not_copied() -> None:
    spec = make_spec()
    assert definition_of(spec, ToolFormat.ANTHROPIC).definition["input_schema"] is spec.input_schema


def test_a_description_too_long_for_openai_is_truncated_with_a_warning() -> None:
    definition = definition_of(
        make_spec("я" * (OPENAI_MAX_DESCRIPTION_CHARS + 1)), ToolFormat.OPENAI
    )
    function = definition.definition["function"]
    assert isinstance(function, dict)
    assert len(function["description"]) == OPENAI_MAX_DESCRIPTION_CHARS
    assert function["description"].endswith("я…")
    assert "description" in definition.warnings[0]


@each_row("length", [1_025, OPENAI_MAX_DESCRIPTION_CHARS])
def test_a_description_within_the_limit_is_unchanged(length: int) -> None:
    definition = definition_of(make_spec("d" * length), ToolFormat.OPENAI)
    assert definition.warnings == ()


def test_the_openai_format_warns_of_too_many_tools() -> None:
    assert list_warnings(ToolFormat.OPENAI, OPENAI_MAX_TOOLS) == ()
    (warning,) = list_warnings(ToolFormat.OPENAI, OPENAI_MAX_TOOLS + 1)
    assert warning.startswith("129 tools are listed, but OpenAI accepts at most 128")


@each_row("tool_format", [ToolFormat.MCP, ToolFormat.ANTHROPIC])
def test_the_other_formats_do_not_limit_the_number_of_tools(tool_format: ToolFormat) -> None:
    assert list_warnings(tool_format, 10_000) == ()


EITHER: JsonObject = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
    "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
}


def description_of(schema: JsonObject, description: str = "Look up.") -> object:
    shown = definition_of(make_spec(description, schema), ToolFormat.ANTHROPIC).definition
    return shown["description"]


def test_a_condition_refused_by_an_api_is_added_to_the_description() -> None:
    condition = (
        'The arguments also have to match: {"anyOf":[{"required":["id"]},{"required":["name"]}]}'
    )
    assert (description_of(EITHER), description_of(EITHER, "")) == (
        f"Look up.\n\n{condition}",
        condition,
    )


@each_row(
    "choice",
    [
        [{"required": ["id"]}, {"title": "x" * 600}],
        [{"$ref": "#/$defs/a"}, {"required": ["id"]}],
    ],
)
def test_long_or_referring_conditions_are_not_added_to_the_description(
    choice: object,
) -> None:
    definitions = {"a": {"required": ["name"]}}
    assert description_of({**EITHER, "anyOf": choice, "$defs": definitions}) == "Look up."


def test_a_condition_in_the_description_uses_renamed_arguments() -> None:
    schema = {
        "type": "object",
        "properties": {"$id": {}, "name": {}},
        "anyOf": [{"required": ["$id"]}, {"required": ["name"]}],
    }
    assert '{"required":["id"]}' in str(description_of(schema))


def test_a_merged_condition_is_not_added_to_the_description() -> None:
    schema = {"type": "object", "allOf": [{"required": ["id"]}, {"properties": {"id": {}}}]}
    assert description_of(schema) == "Look up."
