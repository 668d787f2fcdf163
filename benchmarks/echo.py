"""Responses of the bare MCP servers: an ``echo`` tool and additional fictitious ones.

Uses only the standard library, so that the stdio server starts quickly.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
_OLDER = ("2025-03-26", "2025-06-18")
ECHO = "echo"
PREFIX = "Echo: "
"""Prefix of the text in responses of ``echo``, which identifies them."""

_INVALID_PARAMS, _METHOD_NOT_FOUND = -32602, -32601
_SERVER_INFO = {"name": "bare", "version": "1"}
_CAPABILITIES = {"tools": {"listChanged": False}}
_ECHO_TOOL: Mapping[str, object] = {
    "name": ECHO,
    "description": "Say the text again.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True, slots=True)
class Answers:
    """Responds to JSON-RPC messages of both eras; lists ``tools`` fictitious ones besides
    ``echo``.
    """

    tools: int = 0

    def to(self, message: bytes) -> bytes | None:
        """Return the response as one line of JSON, or None for a notification."""
        request = json.loads(message)
        if "id" not in request:
            return None
        answer = {"jsonrpc": "2.0", "id": request["id"], **self._outcome(request)}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()

    def _outcome(self, request: Mapping[str, object]) -> Mapping[str, object]:
        method, params = request["method"], request.get("params") or {}
        assert isinstance(params, dict)
        if method == "tools/call":
            return _called(params, _COMPLETE)
        if method == "tools/list":
            tools = [_ECHO_TOOL, *map(invented_tool, range(self.tools))]
            return {"result": {**_COMPLETE, **_CACHED, "tools": tools}}
        if method == "initialize":
            requested = params.get("protocolVersion")
            agreed = requested if requested in _OLDER else LEGACY
            return {"result": {**_PROMISE, "protocolVersion": agreed, "serverInfo": _SERVER_INFO}}
        if method == "server/discover":
            return {"result": {**_COMPLETE, **_CACHED, **_PROMISE, "supportedVersions": [MODERN]}}
        if method == "ping":
            return {"result": {}}
        return _error(_METHOD_NOT_FOUND, "no such method")


_PROMISE = {"capabilities": _CAPABILITIES}
_CACHED: dict[str, object] = {"ttlMs": 0, "cacheScope": "public"}
_COMPLETE: dict[str, object] = {
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": _SERVER_INFO},
}


def invented_tool(number: int) -> Mapping[str, object]:
    """Describe a tool of realistic size: 600 to 800 bytes of JSON."""
    return {
        "name": f"search_records_{number:03}",
        "description": (
            f"Search record collection {number} of the workspace and give the best matches, the "
            "newest first among equals. Use a few words; quotes make a phrase."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for", "minLength": 1},
                "collection": {"type": "string", "enum": ["open", "closed", "archived"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
                "since": {"type": "string", "description": "RFC 3339 time of the oldest match"},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def _called(params: Mapping[str, object], base: Mapping[str, object]) -> Mapping[str, object]:
    arguments = params.get("arguments")
    if params.get("name") != ECHO or not isinstance(arguments, dict):
        return _error(_INVALID_PARAMS, "only the echo tool can be called")
    content = [{"type": "text", "text": f"{PREFIX}{arguments['text']}"}]
    return {"result": {**base, "content": content, "isError": False}}


def _error(code: int, message: str) -> Mapping[str, object]:
    return {"error": {"code": code, "message": message}}
