"""The same call for programs: as curl, as Python, and as a request of MCP.

Characters that a page does not show are escaped as JSON and Python do it, so a copy says the same.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from mcp_tools_proxy.console.api_client import EXECUTE_PATH
from mcp_tools_proxy.console.schema_forms.visible_json import is_plain, visible_json
from mcp_tools_proxy.console.tries.tool_caller import ToolCaller
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META_KEY,
)

PLACEHOLDER_URL = "http://HOST:PORT"
"""Stands for the gateway's address in examples, where that is not known."""

DOCUMENTS_META_KEY = "io.github.mcp-tools-proxy/documents"
MAX_SAMPLE_CHARS = 8_000
"""Arguments that are longer are not repeated in three samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSamples:
    """One call in three forms."""

    curl: str
    python: str
    mcp: str


def samples_of(
    public_url: str | None, caller: ToolCaller, tool_name: str, arguments: object
) -> CallSamples | None:
    """Return the samples of a call, to the public address if it is known; None if too long."""
    base = (public_url or PLACEHOLDER_URL).rstrip("/")
    body = {"tool_name": tool_name, "arguments": arguments, **caller.context}
    if len(json.dumps(body)) > MAX_SAMPLE_CHARS:
        return None
    return CallSamples(
        curl=_curl(f"{base}{EXECUTE_PATH}", body),
        python=_python(f"{base}{EXECUTE_PATH}", body),
        mcp=_mcp(base, caller, tool_name, arguments),
    )


def _curl(url: str, body: Mapping[str, Any]) -> str:
    return (
        f"curl -sS {_shell(url)} \\\n"
        '  -H "Authorization: Bearer $TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  --data-binary {_shell(visible_json(body))}"
    )


def _shell(text: str) -> str:
    """Quote a text for a POSIX shell, which reads nothing into single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def _python(url: str, body: Mapping[str, Any]) -> str:
    return (
        "import os\n\nimport httpx\n\n"
        "answer = httpx.post(\n"
        f"    {_literal(url, '    ')},\n"
        '    headers={"Authorization": f"Bearer {os.environ[\'TOKEN\']}"},\n'
        f"    json={_literal(body, '    ')},\n"
        "    timeout=60,\n"
        ")\n"
        "print(answer.json())"
    )


def _literal(value: object, indent: str) -> str:
    """Return a JSON value as a Python expression, on lines that begin with ``indent``."""
    inner = f"{indent}    "
    match value:
        case str():
            return _python_text(value)
        case dict() if value:
            pairs = (f"{_python_text(key)}: {_literal(it, inner)}" for key, it in value.items())
            return "{\n" + "".join(f"{inner}{pair},\n" for pair in pairs) + indent + "}"
        case list() if value:
            items = (_literal(it, inner) for it in value)
            return "[\n" + "".join(f"{inner}{item},\n" for item in items) + indent + "]"
    return repr(value)


def _python_text(text: str) -> str:
    """Quote a text for Python; an escape of JSON for a character beyond U+FFFF would be two."""
    return "".join(['"', *(_python_character(it) for it in text), '"'])


def _python_character(char: str) -> str:
    if char in '"\\\n\t' or (char != "\r" and is_plain(char)):
        return json.dumps(char, ensure_ascii=False)[1:-1]
    return f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"


def _mcp(base: str, caller: ToolCaller, tool_name: str, arguments: object) -> str:
    version = MODERN_VERSIONS[-1]
    meta: dict[str, object] = {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: {"name": "my-agent", "version": "1"},
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    if caller.documents:
        meta[DOCUMENTS_META_KEY] = [*caller.documents]
    content = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool_name, "arguments": arguments, "_meta": meta},
    }
    agent = f"/agents/{quote(caller.agent, safe='')}" if caller.agent else ""
    headers = [
        "Authorization: Bearer TOKEN",
        f"X-Tenant-Id: {caller.tenant_id}",
        f"X-User-Id: {caller.user_id}",
        *([f"X-User-Roles: {','.join(quote(it) for it in caller.roles)}"] if caller.roles else ()),
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {version}",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {_header(tool_name)}",
    ]
    return "\n".join([f"POST {base}/mcp{agent}", *headers, "", visible_json(content)])


def _header(text: str) -> str:
    """Return a text as a header, in Base64 where it is not printable ASCII."""
    is_simple = text.isascii() and text.isprintable() and text == text.strip()
    if is_simple and not text.startswith("=?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="
