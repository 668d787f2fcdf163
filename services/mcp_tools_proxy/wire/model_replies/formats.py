"""Formats of model APIs: the shape of calls in a reply, and of their results."""

from collections.abc import Sequence
from typing import Protocol

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.wire.model_replies.model_call import (
    Item,
    ModelCall,
    call_run_elsewhere,
    invalid_item,
    no_function_call,
    read_call_id,
    read_name,
    read_object,
)
from mcp_tools_proxy.wire.model_replies.result_text import Image, ImageRules, Part

Pieces = tuple[bytes, ...]
"""JSON in pieces, joined only once, with the rest of a response."""


class ReplyShape(Protocol):
    """The shape of one API; implementations are stateless."""

    title: str
    """The API and its property, for messages."""

    opening: bytes
    closing: bytes
    """Start and end of the results, which are separated by commas."""

    id_key: str
    """The property of a call that its result must name."""

    ids_identify: bool
    """Whether results are matched to calls by unique ids."""

    def is_item(self, item: Item) -> bool:
        """Return whether an item certainly belongs to this API and no other."""
        ...

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call of an item; None for other items. Raises InvalidRequest."""
        ...

    def image_rules(self) -> ImageRules:
        """Return the image rules for the results of one reply."""
        ...

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build the JSON of a result with images."""
        ...

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the result of one call around its content, the JSON of a text or of parts."""
        ...


class ChatCompletions:
    """The shape of ``tool_calls``: each item is a call and needs a message."""

    title = "OpenAI's tool_calls"
    id_key = "id"
    ids_identify = False
    """Results follow the order of the calls: some providers send no ids, or equal ones."""
    opening, closing = b"[", b"]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item is a function or custom tool call; some omit the type."""
        return item.get("type") in ("function", "custom") or isinstance(item.get("function"), dict)

    def read_call(self, item: Item, place: int) -> ModelCall:
        """Return the call; other kinds than functions are refused. Raises InvalidRequest.

        A refused call needs a message too: the API requires one for each id.
        """
        call_id = read_call_id(item, "id", place) if item.get("id") not in (None, "") else ""
        function = item.get("function")
        if isinstance(function, dict):
            if not isinstance(item.get("type"), str | None):
                raise invalid_item(place, ".type", "should be a string")
            name, arguments = read_name(function, place, "function."), function.get("arguments")
            return ModelCall(call_id=call_id, name=name, item=item, arguments=arguments)
        kind = str(item["type"])
        if kind not in ("function", "custom"):
            return no_function_call(item, call_id, kind)
        holder = read_object(item, kind, place)
        return no_function_call(item, call_id, read_name(holder, place, f"{kind}."))

    def image_rules(self) -> ImageRules:
        """Return rules without images: a message of the role tool is text only."""
        return ImageRules(taken=False)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a text: without images there is one part."""
        return to_json(str(parts[0]))

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the message of one call."""
        return b'{"role":"tool","tool_call_id":%b,"content":' % to_json(call.call_id), content, b"}"


_OTHER_TYPES = frozenset(
    {"text", "thinking", "redacted_thinking", "container_upload", "mcp_tool_listing"}
)
"""Further types of this API only."""


class AnthropicMessages:
    """The shape of ``content``: calls among texts and thinking."""

    title = "Anthropic's content"
    id_key = "id"
    ids_identify = True
    opening, closing = b'[{"role":"user","content":[', b"]}]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item's type belongs to this API only."""
        kind = item.get("type")
        return isinstance(kind, str) and (
            kind in _OTHER_TYPES
            or kind == "tool_use"
            or kind.endswith(("_tool_use", "_tool_result"))
        )

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call; None for other items. Raises InvalidRequest."""
        kind = str(item["type"])
        if kind != "tool_use":
            return call_run_elsewhere(item) if kind.endswith("_tool_use") else None
        call_id, name = read_call_id(item, self.id_key, place), read_name(item, place)
        return ModelCall(call_id=call_id, name=name, item=item, arguments=item.get("input"))

    def image_rules(self) -> ImageRules:
        """Return rules that allow images in results, but not in errors."""
        return ImageRules(taken=True)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a list of texts and images."""
        return to_json([_block(part) for part in parts])

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the block of one call, with the call's toolset name if present."""
        begin = b'{"type":"tool_result","tool_use_id":%b,"content":' % to_json(call.call_id)
        toolset = call.item.get("toolset_name")
        end = b',"toolset_name":%b}' % to_json(toolset) if isinstance(toolset, str) else b"}"
        return begin, content, b',"is_error":true' if is_error else b',"is_error":false', end


def _block(part: Part) -> JsonObject:
    if isinstance(part, Image):
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": part}


CALL, CALL_IN_SNAKE_CASE = "functionCall", "function_call"
"""Google's Python package writes parts in snake case, with null for all unused kinds."""

_KINDS = frozenset(
    {
        *(CALL, "functionResponse", "text", "thought", "thoughtSignature", "inlineData"),
        *("fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
        *(CALL_IN_SNAKE_CASE, "function_response", "thought_signature", "inline_data"),
        *("file_data", "executable_code", "code_execution_result", "tool_call", "tool_response"),
    }
)
"""Keys of a part; ``type`` is not one of them."""

_CUT_OFF = "the model's answer was cut off before this call was complete; make the call again"


class GeminiParts:
    """The shape of ``parts``: calls among texts and thoughts. Calls need no ids."""

    title = "Gemini's parts"
    id_key = "functionCall.id"
    ids_identify = False
    opening, closing = b'[{"role":"user","parts":[', b"]}]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item is a part: only items of this API lack a type."""
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
        """Return rules without images: models before Gemini 3 refuse them in responses."""
        return ImageRules(taken=False)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a text: without images there is one part."""
        return to_json(str(parts[0]))

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the part of one call; Gemini matches it by id, or by name and order."""
        id_ = b'"id":%b,' % to_json(call.call_id) if call.call_id else b""
        key = b"error" if is_error else b"output"
        name = to_json(call.name)
        begin = b'{"functionResponse":{%b"name":%b,"response":{"%b":' % (id_, name, key)
        return begin, content, b"}}}"


FUNCTION, CUSTOM = "function_call", "custom_tool_call"

_OUTPUT_TYPES = {FUNCTION: b"function_call_output", CUSTOM: b"custom_tool_call_output"}

_UNFINISHED = ("incomplete", "in_progress")
"""``status`` of a call whose arguments can be incomplete: "" would run without arguments."""


_OTHER_RESPONSE_TYPES = frozenset(
    {
        *("message", "reasoning", "program", "program_output", "additional_tools"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_output"),
    }
)
"""Further types of this API only."""


class Responses:
    """The shape of ``output``: calls among messages and reasoning."""

    title = "OpenAI's output"
    id_key = "call_id"
    ids_identify = True
    opening, closing = b"[", b"]"

    def is_item(self, item: Item) -> bool:
        """Return whether the item's type belongs to this API only."""
        kind = item.get("type")
        return isinstance(kind, str) and (
            kind.endswith(("_call", "_call_output")) or kind in _OTHER_RESPONSE_TYPES
        )

    def read_call(self, item: Item, place: int) -> ModelCall | None:
        """Return the call; None for other items. Raises InvalidRequest."""
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
        """Return rules that allow images in all outputs."""
        return ImageRules(taken=True, taken_with_error=True)

    def content_of(self, parts: Sequence[Part]) -> bytes:
        """Build a list of texts and images."""
        return to_json([_input_part(part) for part in parts])

    def result_of(self, call: ModelCall, content: bytes, *, is_error: bool) -> Pieces:
        """Build the item of one call, with the ``caller`` of a call made by a program."""
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
