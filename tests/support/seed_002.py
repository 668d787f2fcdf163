"""The unchanged messages of seed 002; details that it omits follow A.6."""

import json
from typing import Any

from tests.support.configuration import Json

LIST_REPLY: dict[str, Any] = json.loads("""
{
  "jsonrpc": "2.0",
  "id": "1",
  "result": {
    "tools": [
      {
        "name": "s1:search",
        "description": "Search",
        "input_schema": {
          "type": "object",
          "properties": {
            "query": { "type": "string" },
            "top_k": { "type": "integer" }
          },
          "required": ["query"]
        },
        "output_schema": {
          "type": "object",
          "properties": {
            "results": { "type": "array" }
          }
        },
        "annotations": {}
      }
    ],
    "prompts": [
      { "name": "hello", "description": "Greet user", "arguments": [] }
    ],
    "resources": [
      { "name": "doc", "uri": "docs/{id}", "description": "Doc page", "mime_type": "text/html" }
    ]
  }
}
""")

CALL: dict[str, Any] = json.loads("""
{
  "jsonrpc": "2.0",
  "id": "42",
  "method": "tools/call",
  "params": {
    "name": "s1:search",
    "arguments": { "query": "kotlin", "top_k": 5 },
    "meta": { "trace_id": "abc123" }
  }
}
""")

CALL_REPLY: dict[str, Any] = json.loads("""
{
  "jsonrpc": "2.0",
  "id": "42",
  "result": {
    "content": [
      { "type": "text", "text": "Result preview" }
    ],
    "structured_content": { "results": [{ "title": "…" }] },
    "meta": { "trace_id": "…" },
    "is_error": false
  }
}
""")

SEED_TOOL = {
    "name": "search",
    "description": "Search",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}},
        "required": ["query"],
    },
    "outputSchema": {"type": "object", "properties": {"results": {"type": "array"}}},
    "annotations": {"readOnlyHint": True},
}
SEED: dict[str, list[Json]] = {
    "tools": [SEED_TOOL],
    "prompts": [{"name": "hello", "description": "Greet user", "arguments": []}],
    "resources": [
        {"name": "page", "uri": "docs://1", "description": "A page", "mimeType": "text/html"}
    ],
    "resourceTemplates": [
        {
            "name": "doc",
            "uriTemplate": "docs/{id}",
            "description": "Doc page",
            "mimeType": "text/html",
        }
    ],
}
"""The listed items of seed 002, with the field names of MCP."""
