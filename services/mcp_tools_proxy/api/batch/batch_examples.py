"""Examples of batches for the OpenAPI document: one call in the shape of each model's API."""

from collections.abc import Mapping

_USER = {"user_id": "user_1", "tenant_id": "tenant_1"}
_NAME, _TEXT = "read_doc_metadata", '{"doc_id": "doc_1"}'

REPLY_EXAMPLES: Mapping[str, Mapping[str, object]] = {
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
