"""OpenAI's Chat Completions: the ``tool_calls`` of a message, and messages of the role tool."""

from collections.abc import Sequence

from pydantic_core import to_json

from mcp_tools_proxy.model_replies.images import ImageRules
from mcp_tools_proxy.model_replies.model_call import (
    Item,
    ModelCall,
    no_function_call,
    read_call_id,
    read_name,
    read_object,
)
from mcp_tools_proxy.model_replies.reply_shape import Pieces
from mcp_tools_proxy.model_replies.result_text import Part


class ChatCompletions:
    """The shape of ``tool_calls``: every item is a call, and needs a message."""

    title = "OpenAI's tool_calls"
    id_key = "id"
    ids_identify = False
    """Messages are answered in the order of the calls: some providers send no ids, or equal ones.
    """
    opening, closing = b"[", b"]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item is a function's or a custom tool's call; some leave type out."""
        return item.get("type") in ("function", "custom") or isinstance(item.get("function"), dict)

    def read_call(self, item: Item, place: int) -> ModelCall:
        """Return the call; one of a custom tool or another kind is refused. Raises InvalidRequest.

        It needs a message all the same: the API refuses a conversation without one for each id.
        """
        call_id = read_call_id(item, "id", place) if item.get("id") not in (None, "") else ""
        function = item.get("function")
        if isinstance(function, dict):
            name, arguments = read_name(function, place, "function."), function.get("arguments")
            return ModelCall(call_id=call_id, name=name, item=item, arguments=arguments)
        kind = str(item["type"])
        if kind not in ("function", "custom"):
            return no_function_call(item, call_id, kind)
        holder = read_object(item, kind, place)
        return no_function_call(item, call_id, read_name(holder, place, f"{kind}."))

    def image_rules(self) -> ImageRules:
        """Return that a message of the role tool has text only."""
        return ImageRules(taken=False)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a text: without images there is one part."""
        return to_json(str(parts[0]))

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the message of one call."""
        return b'{"role":"tool","tool_call_id":%b,"content":' % to_json(call.call_id), content, b"}"
