"""Content blocks of MCP results: type inference, validation and truncation."""

from typing import Any, TypeGuard

from pydantic_core import to_json

from mcp_tools_proxy.wire.text import cut_utf8, utf8_len

Block = dict[str, Any]


CUT = "[the rest of the text was cut off]"
"""Ends a truncated text whose reader could not notice the truncation."""

_CUT_JSON = f"\n\n{CUT}"


class TextBudget:
    """Truncates the texts of one result to ``max_bytes`` of UTF-8 in total (contract §2).

    Truncated JSON ends with CUT, or a model would take it for a server's fault or guess the rest;
    if CUT does not fit, the whole JSON is omitted.
    """

    def __init__(self, max_bytes: int) -> None:
        self.chars = 0
        self.truncated = False
        self._left_bytes = max_bytes

    def cut(self, text: str) -> str:
        """Return as much of ``text`` as the budget allows; after the first truncation, nothing."""
        kept = cut_utf8(text, self._left_bytes)
        if len(kept) < len(text):
            if _may_be_json(text):
                left_bytes = self._left_bytes - len(_CUT_JSON)
                kept = cut_utf8(text, left_bytes) + _CUT_JSON if left_bytes > 0 else ""
            self.truncated = True
            self._left_bytes = 0
        else:
            self._left_bytes -= utf8_len(kept)
        self.chars += len(kept)
        return kept

    def cut_text_of(self, holder: Block) -> Block:
        """Truncate ``holder["text"]``, if present; return ``holder`` itself if unchanged."""
        text = holder.get("text")
        if not isinstance(text, str):
            return holder
        kept = self.cut(text)
        return holder if kept is text or kept == text else {**holder, "text": kept}

    def cut_block(self, block: Block) -> Block:
        """Truncate the text of a text block or of an embedded resource."""
        if block["type"] == "text":
            return self.cut_text_of(block)
        if block["type"] == "resource":
            resource = self.cut_text_of(block["resource"])
            return block if resource is block["resource"] else {**block, "resource": resource}
        return block


def _may_be_json(text: str) -> bool:
    start, end = text[:_MARGIN_CHARS].lstrip()[:1], text[-_MARGIN_CHARS:].rstrip()[-1:]
    return (start, end) in _ENDS_OF_JSON


_MARGIN_CHARS = 100
_ENDS_OF_JSON = {("{", "}"), ("[", "]")}


def with_type(block: object) -> object:
    """Add a content block's missing ``type`` if the other fields imply one (F-18)."""
    if not isinstance(block, dict) or block.get("type") is not None:
        return block
    kind = _inferred(block)
    return block if kind is None else {**block, "type": kind}


def _inferred(block: Block) -> str | None:
    mime_type = block.get("mimeType")
    media = mime_type.partition("/")[0] if isinstance(mime_type, str) else ""
    for kind in ("text", "image", "audio", "resource"):
        if kind in block or (kind == media and kind != "text" and "data" in block):
            return kind
    return None


def as_blocks(items: list[object]) -> list[Block] | None:
    """Return content blocks with inferred types; None if one is invalid."""
    typed = [with_type(item) for item in items]
    blocks = [block for block in typed if is_block(block)]
    return blocks if len(blocks) == len(typed) else None


def is_block(block: object) -> TypeGuard[Block]:
    """Return whether ``block`` is a valid content block.

    Blocks of unknown types are not checked further.
    """
    if not isinstance(block, dict):
        return False
    match block.get("type"):
        case "text":
            return _has_text(block, "text")
        case "image" | "audio":
            return _has_text(block, "data") and _has_text(block, "mimeType")
        case "resource":
            return is_resource_contents(block.get("resource"))
        case "resource_link":
            return _has_text(block, "uri") and _has_text(block, "name")
        case kind:
            return isinstance(kind, str)


def is_resource_contents(contents: object) -> bool:
    """Return whether ``contents`` is a resource's text or blob with a URI."""
    if not isinstance(contents, dict):
        return False
    return _has_text(contents, "uri") and (
        _has_text(contents, "text") or _has_text(contents, "blob")
    )


def as_text_block(item: object) -> Block:
    """Convert an invalid content block to text: its own text or its JSON (F-19)."""
    if isinstance(item, dict) and "text" in item:
        item = item["text"]
    return {"type": "text", "text": item if isinstance(item, str) else to_json(item).decode()}


def repeated_data_bytes(result: Block) -> int:
    """Count the bytes of images and other data in ``content`` that structured content repeats.

    The Python SDK sends an image returned by a function in both.
    """
    structured = result.get("structured_content")
    if structured is None:
        return 0
    found = {data for block in result.get("content") or () if (data := _data_of(block))}
    repeated, waiting = 0, [structured]
    while waiting and found:
        match waiting.pop():
            case str() as text if (data := text.rpartition(",")[2]) in found:
                repeated += len(data)
            case dict() as table:
                waiting += table.values()
            case list() as items:
                waiting += items
    return repeated


def _data_of(block: Block) -> str | None:
    holder = block.get("resource") if block.get("type") == "resource" else block
    data = holder.get("data") or holder.get("blob") if isinstance(holder, dict) else None
    return data if isinstance(data, str) else None


def _has_text(holder: Block, field: str) -> bool:
    return isinstance(holder.get(field), str)
