"""Gemini's ``generateContent``: the ``parts`` of a content, and the content with the results."""

from collections.abc import Sequence

from pydantic_core import to_json

from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.model_replies.images import ImageRules
from mcp_tools_proxy.model_replies.model_call import (
    Item,
    ModelCall,
    invalid_item,
    read_call_id,
    read_name,
)
from mcp_tools_proxy.model_replies.reply_shape import Pieces
from mcp_tools_proxy.model_replies.result_text import Part

CALL, CALL_IN_SNAKE_CASE = "functionCall", "function_call"
"""Google's Python package writes a part in snake case, with null for each kind that it is not."""

_KINDS = frozenset(
    {
        *(CALL, "functionResponse", "text", "thought", "thoughtSignature", "inlineData"),
        *("fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
        *(CALL_IN_SNAKE_CASE, "function_response", "thought_signature", "inline_data"),
        *("file_data", "executable_code", "code_execution_result", "tool_call", "tool_response"),
    }
)
"""Keys of a part; one has no ``type``."""

_CUT_OFF = "the model's answer was cut off before this call was complete; make the call again"


class GeminiParts:
    """The shape of ``parts``: calls among texts and thoughts. Calls need no ids."""

    title = "Gemini's parts"
    id_key = "functionCall.id"
    ids_identify = False
    opening, closing = b'[{"role":"user","parts":[', b"]}]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item is a part: only this API's items have no type."""
        return "type" not in item and not _KINDS.isdisjoint(item)

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call; None for another part. Raises InvalidRequest."""
        key = CALL if item.get(CALL) is not None else CALL_IN_SNAKE_CASE
        call = item.get(key)
        if call is None:
            return None
        if not isinstance(call, dict):
            raise invalid_item(place, f".{key}", "should be a JSON object")
        has_id = call.get("id") not in (None, "")
        call_id = read_call_id(call, "id", place, f"{key}.") if has_id else ""
        is_cut_off = (call.get("willContinue") or call.get("will_continue")) is True
        return ModelCall(
            call_id=call_id,
            name=read_name(call, place, f"{key}."),
            item=item,
            arguments=call.get("args"),
            refusal=InvalidArguments(_CUT_OFF) if is_cut_off else None,
        )

    def image_rules(self) -> ImageRules:
        """Return that a response is JSON, without images: models before Gemini 3 refuse them."""
        return ImageRules(taken=False)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a text: without images there is one part."""
        return to_json(str(parts[0]))

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the part of one call: Gemini finds it by the id, or by name and order."""
        id_ = b'"id":%b,' % to_json(call.call_id) if call.call_id else b""
        key = b"error" if is_error else b"output"
        name = to_json(call.name)
        begin = b'{"functionResponse":{%b"name":%b,"response":{"%b":' % (id_, name, key)
        return begin, content, b"}}}"
