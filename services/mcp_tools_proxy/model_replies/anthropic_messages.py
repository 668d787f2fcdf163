"""Anthropic's Messages: the ``content`` of a message, and the user's message with the results."""

from collections.abc import Sequence

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.model_replies.images import Image, ImageRules
from mcp_tools_proxy.model_replies.model_call import (
    Item,
    ModelCall,
    call_run_elsewhere,
    read_call_id,
    read_name,
)
from mcp_tools_proxy.model_replies.reply_shape import Pieces
from mcp_tools_proxy.model_replies.result_text import Part

_OTHER_TYPES = frozenset(
    {"text", "thinking", "redacted_thinking", "container_upload", "mcp_tool_listing"}
)
"""Types that only this API has, besides those that end in ``tool_use`` and ``_tool_result``."""


class AnthropicMessages:
    """The shape of ``content``: calls among texts and thinking."""

    title = "Anthropic's content"
    id_key = "id"
    ids_identify = True
    opening, closing = b'[{"role":"user","content":[', b"]}]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item has a type that only this API has."""
        kind = item.get("type")
        return isinstance(kind, str) and (
            kind in _OTHER_TYPES
            or kind == "tool_use"
            or kind.endswith(("_tool_use", "_tool_result"))
        )

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call; None for what is none. Raises InvalidRequest."""
        kind = str(item["type"])
        if kind != "tool_use":
            return call_run_elsewhere(item) if kind.endswith("_tool_use") else None
        call_id, name = read_call_id(item, self.id_key, place), read_name(item, place)
        return ModelCall(call_id=call_id, name=name, item=item, arguments=item.get("input"))

    def image_rules(self) -> ImageRules:
        """Return that a result may have images, and an error may not."""
        return ImageRules(taken=True)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a list of texts and images."""
        return to_json([_block(part) for part in parts])

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the block of one call; a set of tools that the call names is named again."""
        begin = b'{"type":"tool_result","tool_use_id":%b,"content":' % to_json(call.call_id)
        toolset = call.item.get("toolset_name")
        end = b',"toolset_name":%b}' % to_json(toolset) if isinstance(toolset, str) else b"}"
        return begin, content, b',"is_error":true' if is_error else b',"is_error":false', end


def _block(part: Part) -> JsonObject:
    if isinstance(part, Image):
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": part}
