"""list_available_tools: the tools that the caller can call."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, NotRequired, Protocol

from pydantic import Field, WithJsonSchema
from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.tools.local_tool import (
    Arguments,
    LocalTool,
    build_local_tool,
    no_document,
)
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import JsonObject, Result, ToolSpec
from mcp_tools_proxy.domain.errors import ResultTooLarge
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat
from mcp_tools_proxy.wire.text import estimate_tokens

SUMMARY_CHARS = 160
"""Maximum length of a tool's summary: about 40 tokens."""

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s")


class CatalogArguments(Arguments):
    """Arguments of list_available_tools."""

    format: Annotated[
        ToolFormat | None,
        Field(description="Adds definitions, in MCP format or that of a model API."),
        WithJsonSchema({"type": "string", "enum": list(ToolFormat)}),
    ] = None
    names: Annotated[
        list[str] | None,
        Field(fail_fast=True, description="Only these tools, with their definitions."),
    ] = None


class ToolWarning(TypedDict):
    """A warning about a tool, a requested name, or the whole list."""

    tool: NotRequired[str]
    message: str


class Catalog(TypedDict):
    """Names and one-line summaries of tools and, if requested, their definitions in the same order.

    ``not_configured`` has the gateway's tools that an operator must first configure.
    """

    tools: list[str]
    summaries: Mapping[str, str]
    not_configured: list[str]
    definitions: NotRequired[list[JsonObject]]
    warnings: NotRequired[list[ToolWarning]]


class ToolListing(Protocol):
    """Some tools in one format, in the registry's order."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The registry's descriptions of the tools."""
        ...

    @property
    def definitions(self) -> Sequence[JsonObject]:
        """The tools in the requested format."""
        ...

    @property
    def warnings(self) -> Sequence[ToolWarning]:
        """Warnings about tools, requested names, or the whole list."""
        ...

    @property
    def not_configured(self) -> Sequence[str]:
        """Names of the tools that the caller could call if they were configured."""
        ...


ListTools = Callable[[Caller, ToolFormat, Sequence[str] | None], Awaitable[ToolListing]]


def catalog_tool(
    list_tools: ListTools, *, max_result_bytes: int
) -> LocalTool[CatalogArguments, None]:
    """Build list_available_tools over ``list_tools``, the registry's list for a caller."""

    async def list_for_caller(arguments: CatalogArguments, call: Call, _none: None) -> Result:
        shape = arguments.format or ToolFormat.MCP
        listing = await list_tools(call.caller, shape, arguments.names)
        result = _catalog(listing)
        if arguments.format is not None or arguments.names is not None:
            result["definitions"] = _definitions(listing, shape)
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
            "List the tools that you may call, one per line. With format or names, their "
            "definitions are included."
        ),
        arguments=CatalogArguments,
        result=Catalog,
        function=list_for_caller,
        find_document=no_document,
        needs_tenant=False,
        ignores_unknown_arguments=True,
    )


def _catalog(listing: ToolListing) -> Catalog:
    specs = [spec for spec in listing.specs if spec.is_for_models]
    catalog: Catalog = {
        "tools": [spec.listed_name for spec in specs],
        "summaries": {spec.listed_name: summary_of(spec.description) for spec in specs},
        "not_configured": list(listing.not_configured),
    }
    if warnings := listing.warnings:
        catalog["warnings"] = list(warnings)
    return catalog


def summary_of(description: str) -> str:
    """Return the first sentence of a description, on one line, cut to SUMMARY_CHARS."""
    line = next(filter(None, map(str.strip, description.splitlines())), "")
    sentence = _END_OF_SENTENCE.split(line, maxsplit=1)[0]
    return sentence if len(sentence) <= SUMMARY_CHARS else sentence[: SUMMARY_CHARS - 1] + "…"


def _definitions(listing: ToolListing, shape: ToolFormat) -> list[JsonObject]:
    if shape is ToolFormat.MCP:
        return [_definition(spec) for spec in listing.specs if spec.is_for_models]
    return list(listing.definitions)


def _definition(spec: ToolSpec) -> JsonObject:
    """Return a tool's definition with its alias, for model APIs that reject a colon in names."""
    definition: dict[str, object] = {
        "name": spec.listed_name,
        "alias": spec.alias,
        "description": spec.description,
        "input_schema": spec.input_schema,
    }
    if spec.output_schema is not None:
        definition["output_schema"] = spec.output_schema
    return definition
