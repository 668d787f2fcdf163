"""Conversion of servers' results to the envelope: pure functions on raw JSON."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.errors import ToolFailed
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.downstream.connection import MESSAGE_CHARS
from mcp_tools_proxy.downstream.optional_fields import (
    OF_CONTENT,
    OF_CONTENTS,
    OF_LINKS,
    Shape,
    drop_invalid_fields,
)
from mcp_tools_proxy.wire.content_blocks import (
    Block,
    TextBudget,
    as_blocks,
    as_text_block,
    is_block,
    is_resource_contents,
    with_type,
)
from mcp_tools_proxy.wire.encoding import encodable
from mcp_tools_proxy.wire.text import estimate_tokens, quote
from mcp_tools_proxy.wire.tracing import GUARDS_KEY

_SHAPED = frozenset(
    {
        *("content", "structuredContent", "structured_content", "isError", "is_error"),
        *("messages", "description", "contents"),
        *("_meta", "meta", "resultType", "ttlMs", "cacheScope"),
        *("tokens", "truncated"),
    }
)
"""The fields of results that are read or added here; all others are passed on unchanged."""


_REQUIRED = frozenset({"type", "text", "data", "mimeType"})


_OPTIONAL = frozenset({"annotations", "_meta", "title", "description", "mimeType", "size", "icons"})


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tools/call result: ``content``, ``structured_content``?, ``meta``?, tokens, truncated.

    ``decode_failed`` marks an invalid result.
    """

    value: dict[str, Any]
    tokens: int
    is_error: bool = False
    decode_failed: bool = False


def normalise_tool_result(raw: object, *, max_text_bytes: int) -> ToolAnswer:
    """Convert a tools/call result.

    A valid one is passed on (F-17), missing block types are inferred (F-18), and an invalid one
    becomes text and a structured object (F-19). The total of all texts is cut to
    ``max_text_bytes``; empty text blocks are then left out.
    """
    raw = encodable(raw)
    content = _valid_content(raw)
    decode_failed = content is None
    if content is None:
        content = _content_of_anything(raw)
    fields = raw if isinstance(raw, dict) else {}
    structured = _first_of(fields, "structuredContent", "structured_content")
    if decode_failed and not isinstance(structured, dict):
        structured = raw if isinstance(raw, dict) else {"raw": raw}
    budget = TextBudget(max_text_bytes)
    value: dict[str, Any] = {"content": _cut(content, budget)}
    if structured is not None:
        value["structured_content"] = structured
    if not decode_failed:
        value |= _unknown(fields)
    meta = _first_of(fields, "_meta", "meta")
    if isinstance(meta, dict):
        value["meta"] = _without_ours(meta)
    return ToolAnswer(
        value=value,
        tokens=_finish(value, budget),
        is_error=_first_of(fields, "isError", "is_error") is True,
        decode_failed=decode_failed,
    )


def failure_of(answer: ToolAnswer, name: str) -> ToolFailed:
    """Build the error for a result with ``isError``; ``details`` keeps its content."""
    texts = (b["text"] for b in answer.value["content"] if b.get("type") == "text")
    text = next((stripped for each in texts if (stripped := each.strip())), "")
    message = quote(text, MESSAGE_CHARS) if text else "its server did not say why"
    details = {k: v for k, v in answer.value.items() if k not in ("tokens", "truncated")}
    return ToolFailed(f"{name} failed: {message}", details=details)


def normalise_prompt_result(raw: object, *, max_text_bytes: int) -> Result | None:
    """Convert a prompts/get result: messages, description?, meta?, tokens, truncated.

    Missing block types are inferred (F-18), unknown fields are kept (W-14). None if invalid.
    """
    raw = encodable(raw)
    if not isinstance(raw, dict) or not isinstance(raw.get("messages"), list):
        return None
    budget = TextBudget(max_text_bytes)
    messages = [_message(message, budget) for message in raw["messages"]]
    if None in messages:
        return None
    value: dict[str, Any] = {"messages": messages}
    if isinstance(raw.get("description"), str):
        value["description"] = raw["description"]
    return _result(value | _unknown(raw), raw, budget)


def normalise_resource_result(raw: object) -> Result | None:
    """Convert a resources/read result: contents, meta?, tokens, truncated.

    Nothing is added, not even a media type, and nothing is cut, as half a page or file is useless.
    Unknown fields are kept (W-14). None if invalid.
    """
    raw = encodable(raw)
    if not isinstance(raw, dict):
        return None
    contents = raw.get("contents")
    if isinstance(contents, list):
        contents = [_valid_fields(one, OF_CONTENTS) for one in contents]
    if not isinstance(contents, list) or not all(is_resource_contents(one) for one in contents):
        return None
    uncut = TextBudget(0)
    uncut.chars = sum(len(one["text"]) for one in contents if isinstance(one.get("text"), str))
    return _result({"contents": contents} | _unknown(raw), raw, uncut)


def _valid_content(raw: object) -> list[Block] | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("content"), list):
        return None
    if not isinstance(raw.get("isError"), bool | None):
        return None
    return as_blocks([_valid_block(item) for item in raw["content"]])


def _content_of_anything(raw: object) -> list[Block]:
    """Return the items of ``content``, invalid ones as text; without items, ``raw`` as text."""
    items = raw.get("content") if isinstance(raw, dict) else None
    blocks = [with_type(_valid_block(it)) for it in items] if isinstance(items, list) else []
    shown = [block if is_block(block) else as_text_block(block) for block in blocks]
    return shown or [{"type": "text", "text": to_json(raw).decode()}]


def _valid_block(block: Any) -> Any:
    """Return a content block without optional fields that are null or of the wrong type."""
    if not isinstance(block, dict) or (block.keys() <= _REQUIRED and None not in block.values()):
        return block
    if block.get("type") == "resource_link":
        return _valid_fields(block, OF_LINKS)
    block = _valid_fields(block, OF_CONTENT)
    if "resource" in block:
        resource = _valid_fields(block["resource"], OF_CONTENTS)
        if resource is not block["resource"]:
            block = {**block, "resource": resource}
    return block


def _valid_fields(holder: Any, fields: Mapping[str, Shape]) -> Any:
    """Return an object without such fields: for a null field, clients refuse the result."""
    if not isinstance(holder, dict):
        return holder
    if None in holder.values():
        holder = {k: it for k, it in holder.items() if it is not None or k not in _OPTIONAL}
    return drop_invalid_fields(holder, fields)[0]


def _message(message: object, budget: TextBudget) -> Block | None:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return None
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    blocks = as_blocks([_valid_block(part) for part in parts])
    if blocks is None:
        return None
    cut = [budget.cut_block(block) for block in blocks]
    return {**message, "content": cut if isinstance(content, list) else cut[0]}


def _cut(content: list[Block], budget: TextBudget) -> list[Block]:
    cut = [budget.cut_block(block) for block in content]
    if not budget.truncated:
        return cut
    return [b for b, whole in zip(cut, content, strict=True) if b is whole or b.get("text") != ""]


def _unknown(raw: Block) -> Block:
    """Return the unknown fields of an answer: MCP allows servers to add fields."""
    return {key: field for key, field in raw.items() if key not in _SHAPED}


def _result(value: dict[str, Any], raw: Block, budget: TextBudget) -> Result:
    if isinstance(raw.get("_meta"), dict):
        value["meta"] = _without_ours(raw["_meta"])
    return Result(value=value, tokens=_finish(value, budget))


def _without_ours(meta: Block) -> Block:
    """Return a server's ``_meta`` without findings, which only the gateway's guards may add."""
    if GUARDS_KEY not in meta:
        return meta
    return {key: value for key, value in meta.items() if key != GUARDS_KEY}


def _finish(value: dict[str, Any], budget: TextBudget) -> int:
    size = budget.chars or len(to_json(value))
    value["tokens"] = tokens = estimate_tokens(size)
    value["truncated"] = budget.truncated
    return tokens


def _first_of(fields: Block, name: str, other: str) -> object:
    field = fields.get(name)
    return fields.get(other) if field is None else field
