"""Each format's tools match the types that its vendor publishes.

Only the tests need the vendors' packages.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError

from mcp_tools_proxy.app.optional import UnconfiguredRetrieval
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.folder.folder_cache import ScanCache
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.documents.search.tenant_search import TenantSearch, build_search_indexes
from mcp_tools_proxy.documents.tools.local_tools import ToolParts, build_local_tools
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat, definition_of

Shown = Mapping[str, Any]

STRICT = ConfigDict(extra="forbid", strict=True)
"""Types of these packages allow unknown keys; these tests do not."""

TYPES = {
    ToolFormat.OPENAI: ("openai.types.chat", "ChatCompletionFunctionToolParam"),
    ToolFormat.ANTHROPIC: ("anthropic.types", "ToolParam"),
    ToolFormat.GEMINI: ("tests.support.gemini_types", "FunctionDeclaration"),
}
"""Imported in the tests, because it takes a sixth of the time of collecting all tests."""

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
REMOTE_SCHEMAS: list[Shown] = [
    {"type": "object"},
    {"type": ["object", "null"], "required": []},
    {"$schema": DRAFT_7, "$ref": "#/definitions/In", "definitions": {"In": {"type": "object"}}},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"properties": {"b": {"$ref": "#"}}}]},
    {"type": "object", "properties": {"a b": {"type": "array"}, "c": True}, "required": ["a b"]},
    {"type": "object", "allOf": [{"not": {"required": ["a"]}}], "const": {}},
    {"type": "object", "properties": {"a": {"pattern": "(?!x)", "$ref": "https://x.example/s"}}},
]
NAMES = ["search", "a:b", "ключ", "x" * 300, "with space"]


def local_specs() -> list[ToolSpec]:
    store = FolderStore(Path("none"), ScanCache(Path("none"), Path("none")))
    repository = DocumentRepository(
        store, cache_bytes=1, hide_foreign_documents=False, metrics=Metrics()
    )
    indexes = build_search_indexes(store, repository, cache_dir=None, folder=Path(), url=None)
    search = TenantSearch(repository, indexes)
    parts = ToolParts(
        repository=repository,
        tenant_search=search,
        retrieval=UnconfiguredRetrieval(),
        list_tools=RegistryHolder().list_tools,
        windows_configured=True,
        windows_are_local=False,
        own_documents_only=True,
        retrieval_knows_caller=False,
        max_text_bytes=1_000,
        max_pages_per_call=5,
        window_radius=2,
        max_image_bytes=1_000,
        max_result_bytes=1_000,
    )
    specs = [tool.spec for tool in build_local_tools(parts)]
    search.close()
    repository.close()
    return specs


def remote_spec(name: str, schema: Shown) -> ToolSpec:
    return ToolSpec(
        name=qualified_name("some.server", name),
        alias=alias_of("some.server", name),
        description="Does things \U0001f600",
        input_schema=schema,
        output_schema={"type": "object"},
        annotations={"readOnlyHint": True},
        extra={"title": "T", "_meta": {"x": 1}},
        server_id="some.server",
    )


SPECS = [*local_specs(), *(remote_spec(n, s) for n in NAMES for s in REMOTE_SCHEMAS)]


def listed(tool_format: ToolFormat) -> list[Shown]:
    return [definition_of(spec, tool_format).definition for spec in SPECS]


def adapter_of(tool_format: ToolFormat) -> TypeAdapter[list[Any]]:
    """Build a validator for a list of a vendor's tools."""
    module, name = TYPES[tool_format]
    tool = getattr(importlib.import_module(module), name)
    config = (
        None if tool_format is ToolFormat.GEMINI else STRICT
    )  # these types have separate settings
    return TypeAdapter(list[tool], config=config)  # type: ignore[valid-type]


vendors = pytest.mark.parametrize("vendor", TYPES)


@vendors
def test_tools_match_the_types_of_their_vendors_package(vendor: ToolFormat) -> None:
    tools = listed(vendor)
    assert adapter_of(vendor).validate_python(tools) == tools


def test_anthropic_input_schemas_match_the_types_of_its_package() -> None:
    module = importlib.import_module("anthropic.types.tool_param")
    adapter = TypeAdapter(module.InputSchemaTyped)
    schemas = [tool["input_schema"] for tool in listed(ToolFormat.ANTHROPIC)]
    assert [adapter.validate_python(schema) for schema in schemas] == schemas


@vendors
def test_a_key_that_a_package_does_not_describe_is_refused(vendor: ToolFormat) -> None:
    with pytest.raises(ValidationError, match="unknown"):
        adapter_of(vendor).validate_python([{**listed(vendor)[0], "unknown": 1}])


def test_mcp_tools_match_the_types_of_its_package() -> None:
    tools = listed(ToolFormat.MCP)
    read = [mcp_types.Tool.model_validate(tool) for tool in tools]
    assert [tool.model_dump(by_alias=True, exclude_unset=True) for tool in read] == tools
