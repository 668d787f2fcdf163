"""The requests that the OpenAPI document shows; each of them works (tests/api/test_examples.py)."""

from collections.abc import Mapping

from mcp_tools_proxy.tools.local_tools import EXAMPLES

Examples = Mapping[str, Mapping[str, object]]
"""Bodies by the name under which they are shown."""

NO_EXAMPLES: Examples = {}

_USER = {"user_id": "user_1", "tenant_id": "tenant_1"}

_NAME, _TEXT = "read_doc_metadata", '{"doc_id": "doc_1"}'

REPLY_EXAMPLES: Examples = {
    "tool_calls of OpenAI's Chat Completions": {
        "calls": [
            {"id": "call_1", "type": "function", "function": {"name": _NAME, "arguments": _TEXT}}
        ],
        "user": _USER,
    },
    "output of OpenAI's Responses": {
        "calls": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "call_1", "name": _NAME, "arguments": _TEXT},
        ],
        "user": _USER,
    },
    "content of Anthropic's Messages": {
        "calls": [
            {"type": "text", "text": "I look it up."},
            {"type": "tool_use", "id": "toolu_1", "name": _NAME, "input": {"doc_id": "doc_1"}},
        ],
        "user": _USER,
    },
    "parts of Gemini's content": {
        "calls": [
            {"text": "I look it up."},
            {"functionCall": {"name": _NAME, "args": {"doc_id": "doc_1"}}},
        ],
        "user": _USER,
    },
}

EXECUTE_EXAMPLES: Examples = {
    tool_name: {"tool_name": tool_name, "arguments": arguments, "user": _USER}
    for tool_name, arguments in EXAMPLES.items()
}

BATCH_EXAMPLES: Examples = {
    "two calls at once": {
        "calls": [
            {"tool_name": name, "arguments": EXAMPLES[name]}
            for name in ("read_doc_metadata", "doc_local_search")
        ],
        "user": _USER,
    },
    **REPLY_EXAMPLES,
}

PROMPT_EXAMPLES: Examples = {
    "with an argument": {"name": "weekly_review", "arguments": {"topic": "vpn"}, "user": _USER}
}

RESOURCE_EXAMPLES: Examples = {"by URI": {"uri": "notes://all", "user": _USER}}

PRESET_EXAMPLES: Examples = {
    "until the next start": {"preset_id": "notes", "persist": False},
    "for good": {"preset_id": "notes"},
}

LOG_LEVEL_EXAMPLES: Examples = {
    "for ten minutes": {"level": "debug", "for_s": 600},
    "until the next start": {"level": "warning"},
}

DEFINITION_EXAMPLES: Examples = {
    "a tool": {
        "server_id": "notes",
        "kind": "tool",
        "name": "find",
        "sha256": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
    },
}

LOGIN_EXAMPLES: Examples = {
    "any sign-in": {"server_id": "notes"},
    "a wider one": {"server_id": "notes", "scopes": ["notes.write"]},
}

TOKEN_EXAMPLES: Examples = {
    "of a service that knows its users": {
        "tenant_id": "tenant_1",
        "asserts_users": True,
        "expires": "90d",
        "note": "chat service",
    },
    "of one user and one agent": {
        "tenant_id": "tenant_1",
        "user_id": "user_1",
        "agents": ["reader"],
    },
    "of an operator": {"rights": ["audit", "documents"], "expires": "2099-01-01"},
}

RIGHTS_EXAMPLES: Examples = {
    "one user and a role": {"readers": {"users": ["ann"], "roles": ["audit"]}},
    "nobody": {"readers": {}},
    "all of the tenant": {"all_users": True},
}
