"""list_available_tools: what this caller may run."""

from collections.abc import Callable, Sequence
from typing import NotRequired

from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.component import JsonObject, Result
from mcp_tools_proxy.domain.tool import Tool, ToolSpec
from mcp_tools_proxy.policy.bounds import estimate_tokens
from mcp_tools_proxy.tools.bind import Arguments, bind


class CatalogArguments(Arguments):
    """Takes nothing."""


class Definition(TypedDict):
    """One tool; ``alias`` is its name for model APIs that refuse a colon."""

    name: str
    alias: str
    description: str
    input_schema: JsonObject
    output_schema: NotRequired[JsonObject]


class Catalog(TypedDict):
    """The names, and the definitions in the same order."""

    tools: list[str]
    definitions: list[Definition]


def catalog_tool(visible_to: Callable[[Caller], Sequence[ToolSpec]]) -> Tool:
    """Build list_available_tools over ``visible_to``, the registry's list for a caller."""

    async def list_tools(arguments: CatalogArguments, call: Call) -> Result:
        specs = visible_to(call.caller)
        result: Catalog = {
            "tools": [spec.name for spec in specs],
            "definitions": [_definition(spec) for spec in specs],
        }
        return Result(value=result, tokens=estimate_tokens(len(to_json(result))))

    return bind(
        name="list_available_tools",
        description="List the tools that you may call, with their descriptions and schemas.",
        arguments=CatalogArguments,
        result=Catalog,
        function=list_tools,
    )


def _definition(spec: ToolSpec) -> Definition:
    definition: Definition = {
        "name": spec.name,
        "alias": spec.alias,
        "description": spec.description,
        "input_schema": spec.input_schema,
    }
    if spec.output_schema is not None:
        definition["output_schema"] = spec.output_schema
    return definition
