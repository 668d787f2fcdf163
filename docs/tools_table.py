"""Writes the table of document tools in ``reference/tools.md`` from their definitions.

``make docs`` runs this; a test fails while the page differs from the output. The limits in the
texts are the defaults of the settings.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from pydantic import TypeAdapter

from mcp_tools_proxy.documents.tools.chunk_window import ChunkWindow
from mcp_tools_proxy.documents.tools.list_available_tools import Catalog
from mcp_tools_proxy.documents.tools.list_documents import DocumentList
from mcp_tools_proxy.documents.tools.local_tools import ToolParts, build_local_tools
from mcp_tools_proxy.documents.tools.read_document import Metadata, PagesText, SectionText
from mcp_tools_proxy.documents.tools.search import FoundInDocuments, Snippets
from mcp_tools_proxy.documents.tools.verify_quote import QuoteVerdict
from mcp_tools_proxy.documents.tools.view_page import ShownPage
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.settings.settings import Settings

PAGE = Path(__file__).parent / "reference/tools.md"

RESULTS: Mapping[str, type[Mapping[str, object]]] = {
    "read_doc_section": SectionText,
    "read_doc_pages": PagesText,
    "read_doc_metadata": Metadata,
    "doc_local_search": Snippets,
    "read_chunk_window": ChunkWindow,
    "list_documents": DocumentList,
    "search_documents": FoundInDocuments,
    "verify_quote": QuoteVerdict,
    "view_doc_page": ShownPage,
    "list_available_tools": Catalog,
}
"""The type of each tool's result: the tool's own schema has no nested fields."""

_TABLE = re.compile(r"(<!-- tools: documents -->\n).*?(<!-- end -->)", re.DOTALL)
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def written(page: str) -> str:
    """Return the page with the table as the code has it."""
    rows = "".join(map(_row, _specs()))
    table = f"| tool | purpose | arguments | result |\n|---|---|---|---|\n{rows}"
    return _TABLE.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", page)


def _specs() -> Iterator[ToolSpec]:
    absent: Any = Mock()
    settings = Settings()
    parts = ToolParts(
        repository=absent,
        tenant_search=absent,
        retrieval=absent,
        list_tools=absent,
        images=absent,
        windows_configured=True,
        windows_are_local=False,
        own_documents_only=False,
        retrieval_knows_caller=False,
        max_text_bytes=settings.max_text_bytes,
        max_pages_per_call=settings.max_pages_per_call,
        window_radius=settings.window_radius,
        max_image_bytes=settings.max_image_bytes,
        max_result_bytes=settings.max_result_bytes,
    )
    return (tool.spec for tool in build_local_tools(parts))


def _row(spec: ToolSpec) -> str:
    arguments: Any = spec.input_schema
    required = arguments.get("required", ())
    described = (
        f"`{name}`{'' if name in required else '?'}{_meaning(schema)}"
        for name, schema in arguments["properties"].items()
    )
    schema = TypeAdapter(RESULTS[spec.name]).json_schema()
    purpose = _NAME.sub(r"`\g<0>`", spec.description)
    result = _fields(schema, schema.get("$defs", {}))
    return f"| `{spec.name}` | {purpose} | {'; '.join(described)} | {result} |\n"


def _meaning(schema: Mapping[str, Any]) -> str:
    """Return bounds, choices, default and description of an argument, in parentheses."""
    facts = [
        f"≥ {schema['minimum']}" if "minimum" in schema else "",
        ", ".join(f"`{it}`" for it in schema.get("enum", ())),
        "list" if schema.get("type") == "array" else "",
        f"default {json.dumps(schema['default'])}" if schema.get("default") is not None else "",
        _NAME.sub(r"`\g<0>`", _lower(schema.get("description", ""))).removesuffix("."),
    ]
    shown = "; ".join(filter(None, facts))
    return f" ({shown})" if shown else ""


def _lower(text: str) -> str:
    """Return a text with a small first letter."""
    return text[:1].lower() + text[1:]


def _fields(schema: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Return the fields of an object, with those of the objects in it."""
    required = schema.get("required", ())
    return ", ".join(
        f"{name}{'' if name in required else '?'}{_nested(field, named)}"
        for name, field in schema["properties"].items()
    )


def _nested(field: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Return the fields of an object or of the objects in a list; sources are described apart."""
    if "items" in field:
        inner = _nested(field["items"], named)
        return f" [{inner.strip()}]" if inner else ""
    name = field.get("$ref", "").rpartition("/")[2]
    if not name or name.endswith("Source"):
        return ""
    return f" {{{_fields(named[name], named)}}}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
