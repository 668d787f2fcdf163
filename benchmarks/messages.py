"""Request bodies for the service and MCP servers."""

import json
from collections.abc import Sequence

from benchmarks.corpus import TENANT, Corpus

EXECUTE = "/internal/mcp/execute"
BATCH = "/internal/mcp/execute/batch"
OK = '"status":"ok"'
SERVERS = "/internal/mcp/servers"
ACTIVE_PRESET = "/internal/mcp/presets/active"
JSON_RPC = '"jsonrpc":"2.0"'
PING = '{"jsonrpc":"2.0","id":0,"method":"ping"}'
NO_DOCUMENT = '"code":"DOCUMENT_NOT_FOUND"'

_TRACE_ID = "0123456789abcdef" * 2


def call(tool_name: str, **arguments: object) -> str:
    """Build the body of one call."""
    return _json(
        {
            "tool_name": tool_name,
            "arguments": arguments,
            "user": _user(TENANT),
            "trace_id": _TRACE_ID,
        }
    )


def tools_call(name: str, **arguments: object) -> str:
    """Build an MCP tools/call message."""
    params = {"name": name, "arguments": arguments}
    return _json({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def call_without_document() -> str:
    """Build a call without a document."""
    return call("list_available_tools")


def http_post(path: str, body: str) -> bytes:
    """Build a complete HTTP request."""
    content = body.encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def section_calls(doc_id: str) -> list[str]:
    """Build calls that read the sections of one document."""
    sections = range(1, 21)
    return [call("read_doc_section", doc_id=doc_id, section_id=f"s{n}") for n in sections]


def search_calls(doc_id: str, corpus: Corpus) -> list[str]:
    """Build calls that search one document."""
    return [call("doc_local_search", doc_id=doc_id, query=query) for query in corpus.queries]


def batch(tenant_id: str, doc_ids: Sequence[str]) -> str:
    """Build a batch that reads the metadata of documents."""
    calls = [
        {"tool_name": "read_doc_metadata", "arguments": {"doc_id": doc_id}} for doc_id in doc_ids
    ]
    return _json({"calls": calls, "user": _user(tenant_id)})


def _user(tenant_id: str) -> dict[str, str]:
    return {"user_id": "bench-user", "tenant_id": tenant_id}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
