"""list_available_tools: what this caller may run."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, NotRequired, Protocol

from pydantic import Field, WithJsonSchema
from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import JsonObject, Result, Tool, ToolSpec
from mcp_tools_proxy.domain.errors import ResultTooLarge
from mcp_tools_proxy.json_schema.model_api.tool_formats import ToolFormat
from mcp_tools_proxy.tools.local_tool import Arguments, build_local_tool, no_document
from mcp_tools_proxy.wire.text import estimate_tokens


class CatalogArguments(Arguments):
    """Which tools, and in which shape."""

    format: Annotated[
        ToolFormat,
        Field(
            description=(
                "The shape of the definitions: mcp gives name, alias and schemas; openai and "
                "anthropic give tools as these APIs take them, named by their aliases."
            )
        ),
        WithJsonSchema({"type": "string", "enum": list(ToolFormat)}),
    ] = ToolFormat.MCP
    names: Annotated[
        list[str] | None,
        Field(
            fail_fast=True,
            description=(
                "Only these tools, by any name that you can call them by. Leave it out for all; "
                "give it when the whole list is too long for one result."
            ),
        ),
    ] = None


class Definition(TypedDict):
    """One tool; ``alias`` is its name for model APIs that refuse a colon."""

    name: str
    alias: str
    description: str
    input_schema: JsonObject
    output_schema: NotRequired[JsonObject]


class ToolWarning(TypedDict):
    """A hint about one tool, about a name that was requested, or about the whole list."""

    tool: NotRequired[str]
    message: str


class Catalog(TypedDict):
    """The names, and the definitions in the same order."""

    tools: list[str]
    definitions: list[Definition] | list[JsonObject]
    warnings: NotRequired[list[ToolWarning]]


class ToolListing(Protocol):
    """Some tools in one format, in the registry's order."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The registry's descriptions of the tools."""
        ...

    @property
    def definitions(self) -> Sequence[JsonObject]:
        """The tools in the list's format."""
        ...

    @property
    def warnings(self) -> Sequence[ToolWarning]:
        """Warnings on single tools, requested names, or the whole list."""
        ...


ListTools = Callable[[Caller, ToolFormat, Sequence[str] | None], Awaitable[ToolListing]]


def catalog_tool(list_tools: ListTools, *, max_result_bytes: int) -> Tool:
    """Build list_available_tools over ``list_tools``, the registry's list for a caller."""

    async def list_for_caller(arguments: CatalogArguments, call: Call, _none: None) -> Result:
        listing = await list_tools(call.caller, arguments.format, arguments.names)
        result = _catalog(listing, arguments.format)
        size = len(to_json(result))
        if size > max_result_bytes:
            raise ResultTooLarge(
                f"the list is {size} bytes as JSON, the limit is {max_result_bytes}; "
                "name the tools you need in names",
                details={"bytes": size, "max_result_bytes": max_result_bytes},
            )
        return Result(value=result, tokens=estimate_tokens(size))

    return build_local_tool(
        name="list_available_tools",
        description=(
            "List the tools that you may call, with their descriptions and schemas. When the whole "
            "list is too long for one result, name the tools that you want to know of in names."
        ),
        arguments=CatalogArguments,
        result=Catalog,
        function=list_for_caller,
        find_document=no_document,
        needs_tenant=False,
        ignores_unknown_arguments=True,
    )


def _catalog(listing: ToolListing, tool_format: ToolFormat) -> Catalog:
    specs = listing.specs
    catalog: Catalog = {
        "tools": [spec.listed_name for spec in specs],
        "definitions": (
            [_definition(spec) for spec in specs]
            if tool_format is ToolFormat.MCP
            else list(listing.definitions)
        ),
    }
    if warnings := listing.warnings:
        catalog["warnings"] = list(warnings)
    return catalog


def _definition(spec: ToolSpec) -> Definition:
    definition: Definition = {
        "name": spec.listed_name,
        "alias": spec.alias,
        "description": spec.description,
        "input_schema": spec.input_schema,
    }
    if spec.output_schema is not None:
        definition["output_schema"] = spec.output_schema
    return definition
