"""OpenAI's Responses: the ``output`` of a response, and items with the outputs of its calls."""

from collections.abc import Sequence

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.model_replies.images import Image, ImageRules
from mcp_tools_proxy.model_replies.model_call import (
    Item,
    ModelCall,
    call_run_elsewhere,
    no_function_call,
    read_call_id,
    read_name,
)
from mcp_tools_proxy.model_replies.reply_shape import Pieces
from mcp_tools_proxy.model_replies.result_text import Part

FUNCTION, CUSTOM = "function_call", "custom_tool_call"

_OUTPUT_TYPES = {FUNCTION: b"function_call_output", CUSTOM: b"custom_tool_call_output"}

_UNFINISHED = ("incomplete", "in_progress")
"""The ``status`` of a call whose arguments may be only begun: "" would be run as no arguments."""

_CUT_OFF = "the model's answer was cut off before this call was complete; make the call again"

_OTHER_TYPES = frozenset(
    {
        *("message", "reasoning", "program", "program_output", "additional_tools"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_output"),
    }
)
"""Types that only this API has, besides those that end in ``_call`` and ``_call_output``."""


class Responses:
    """The shape of ``output``: calls among messages and reasoning."""

    title = "OpenAI's output"
    id_key = "call_id"
    ids_identify = True
    opening, closing = b"[", b"]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item has a type that only this API has."""
        kind = item.get("type")
        return isinstance(kind, str) and (
            kind.endswith(("_call", "_call_output")) or kind in _OTHER_TYPES
        )

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call; None for what is none. Raises InvalidRequest."""
        kind = str(item["type"])
        if kind not in _OUTPUT_TYPES:
            return call_run_elsewhere(item) if kind.endswith("_call") else None
        call_id, name = read_call_id(item, self.id_key, place), read_name(item, place)
        if kind == CUSTOM:
            return no_function_call(item, call_id, name)
        cut_off = InvalidArguments(_CUT_OFF) if item.get("status") in _UNFINISHED else None
        return ModelCall(
            call_id=call_id,
            name=name,
            item=item,
            arguments=item.get("arguments"),
            refusal=cut_off,
        )

    def image_rules(self) -> ImageRules:
        """Return that the output of any call may have images."""
        return ImageRules(taken=True, taken_with_error=True)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a list of texts and images."""
        return to_json([_input_part(part) for part in parts])

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the item of one call; a program of the model's that made it is named again."""
        kind = _OUTPUT_TYPES[str(call.item["type"])]
        begin = b'{"type":"%b","call_id":%b,"output":' % (kind, to_json(call.call_id))
        caller = call.item.get("caller")
        end = b',"caller":%b}' % to_json(caller) if isinstance(caller, dict) else b"}"
        return begin, content, end


def _input_part(part: Part) -> JsonObject:
    if isinstance(part, Image):
        url = f"data:{part.media_type};base64,{part.data}"
        return {"type": "input_image", "image_url": url}
    return {"type": "input_text", "text": part}
