"""A model's reply as a whole: its API, its calls, and the response to it."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidRequest, ToolNotFound
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import Failed, Outcome
from mcp_tools_proxy.wire.model_replies.formats import (
    AnthropicMessages,
    ChatCompletions,
    GeminiParts,
    ReplyShape,
    Responses,
)
from mcp_tools_proxy.wire.model_replies.model_call import (
    Item,
    ModelCall,
    ReadArguments,
    check_idempotency_key,
    invalid_item,
    read_arguments,
)
from mcp_tools_proxy.wire.model_replies.result_text import document_text, show_result
from mcp_tools_proxy.wire.text import quote

PLAIN_KEY = "tool_name"
"""A call with this key is a plain one, independent of model APIs."""

MAX_CALLS_ELSEWHERE = 256
"""Calls of one reply that are run elsewhere; 49,000 of them made a response of 15 MB."""

_SKIPS_UNKNOWN = AnthropicMessages()
"""A shape that skips items of unknown types."""

_GEMINI = GeminiParts()

_SHAPES: Sequence[ReplyShape] = (ChatCompletions(), Responses(), _SKIPS_UNKNOWN, _GEMINI)

_KEYS_OF_CALLS = frozenset({PLAIN_KEY, "name", "arguments", "input"})
"""An item with one of these keys is a call, perhaps an invalid one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The calls of one reply, in order, including those run elsewhere.

    ``arguments`` belong to ``run_here``.
    """

    shape: ReplyShape
    calls: Sequence[ModelCall]
    run_here: Sequence[ModelCall]
    arguments: Sequence[ReadArguments]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAnswer:
    """The outcomes and the ``messages``, a JSON array in pieces, whose content they omit."""

    outcomes: Sequence[Outcome]
    messages: Sequence[bytes]


def shape_of(items: Sequence[object]) -> ReplyShape | None:
    """Return the API of the items, from the first recognized one; None for plain calls.

    If all items have unknown types and none is a call, an API that skips them is returned.
    """
    for item in items:
        if isinstance(item, dict):
            if PLAIN_KEY in item:
                return None
            found = _shape_of_item(item)
            if found is not None:
                return found
    return _SKIPS_UNKNOWN if all(map(_is_no_call, items)) else None


def read_reply(items: Sequence[object], *, max_calls: int, max_items: int) -> ModelReply:
    """Read the calls of a reply; ``max_items`` limits the values in the texts of arguments.

    Raises InvalidRequest for an item of another shape, more calls than ``max_calls`` or
    MAX_CALLS_ELSEWHERE, and missing or repeated ids if the shape needs them.
    """
    shape = shape_of(items) or _SKIPS_UNKNOWN
    calls: list[ModelCall] = []
    for place, item in enumerate(items):
        if not isinstance(item, dict) or "agent" in item or not shape.is_item(item):
            item = _checked(shape, item, place)  # noqa: PLW2901 - the same item
        call = shape.read_call(item, place)
        if call is not None:
            check_idempotency_key(item, place)
            calls.append(call)
    run_here = [call for call in calls if not call.is_run_elsewhere]
    if len(run_here) > max_calls:
        raise _too_many(f"{len(run_here)} calls were sent, the limit is {max_calls}")
    elsewhere = len(calls) - len(run_here)
    if elsewhere > MAX_CALLS_ELSEWHERE:
        raise _too_many(f"{elsewhere} are run elsewhere, the limit is {MAX_CALLS_ELSEWHERE}")
    if shape.ids_identify and len({call.call_id for call in run_here}) < len(run_here):
        raise _repeated_id(shape, items)
    arguments = read_arguments([call.arguments for call in run_here], max_items=max_items)
    return ModelReply(shape=shape, calls=calls, run_here=run_here, arguments=arguments)


def answer_of(
    reply: ModelReply, outcomes: Sequence[Outcome], *, in_full: bool, max_text_bytes: int
) -> ReplyAnswer:
    """Build the response from the outcomes of ``run_here``; ``in_full`` keeps all content."""
    shape, images = reply.shape, reply.shape.image_rules()
    kept: list[Outcome] = []
    pieces = [shape.opening]
    ended = iter(outcomes)
    for call in reply.calls:
        if call.is_run_elsewhere:
            kept.append(_not_run(call))
            continue
        outcome = next(ended)
        content = document_text(outcome)
        if content is not None:
            pieces += shape.result_of(call, content, is_error=False)
        else:
            shown = show_result(outcome, images, max_text_bytes=max_text_bytes)
            content = shown.text or shape.content_of(shown.parts)
            pieces += shape.result_of(call, content, is_error=shown.is_error)
            if shown.content_is_shown and not in_full:
                outcome = _without_content(outcome)
        pieces.append(b",")
        kept.append(outcome)
    if not outcomes:
        return ReplyAnswer(outcomes=kept, messages=[b"[]"])
    pieces[-1] = shape.closing
    return ReplyAnswer(outcomes=kept, messages=pieces)


def text_of(outcome: Outcome, *, max_text_bytes: int) -> bytes:
    """Return, as JSON, the text for a model whose API accepts no images in results."""
    content = document_text(outcome)
    if content is not None:
        return content
    shape = ChatCompletions()
    shown = show_result(outcome, shape.image_rules(), max_text_bytes=max_text_bytes)
    return shown.text or shape.content_of(shown.parts)


def _not_run(call: ModelCall) -> Outcome:
    by = "the model's provider or the program that offered it to the model"
    return Failed(
        error=ToolNotFound(f"{quote(call.name)} is not run here, but by {by}; leave it to them")
    )


def _shape_of_item(item: Item) -> ReplyShape | None:
    for shape in _SHAPES:
        if shape.is_item(item):
            return shape
    return None


def _checked(shape: ReplyShape, item: object, place: int) -> Item:
    """Return an item of this shape, or of an unknown type. Raises InvalidRequest.

    An agent in an item is refused: ignoring it would grant wrong permissions.
    """
    if not isinstance(item, dict):
        raise invalid_item(place, "", "should be a JSON object")
    if isinstance(item.get("agent"), str):  # an object is that of OpenAI's own agents
        problem = "a call cannot have its own agent; set one for the whole batch, beside calls"
        raise invalid_item(place, ".agent", problem)
    if shape.is_item(item):
        return item
    other = _shape_of_item(item)
    if other is not None or PLAIN_KEY in item:
        title = "a plain call" if other is None else f"of {other.title}"
        raise invalid_item(
            place,
            "",
            f"is {title}, but the others are of {shape.title}; all calls of a batch have one form",
        )
    if not isinstance(item.get("type"), str) and not (shape is _GEMINI and _is_new_part(item)):
        raise invalid_item(place, ".type", "should be a string")
    return item


def _is_new_part(item: Item) -> bool:
    """Return whether an item can be a Gemini part of an unknown kind."""
    return bool(item) and "type" not in item and _KEYS_OF_CALLS.isdisjoint(item)


def _is_no_call(item: object) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("type"), str)
        and _KEYS_OF_CALLS.isdisjoint(item)
    )


def _too_many(problem: str) -> InvalidRequest:
    return InvalidRequest(f"calls: {problem}; send fewer at a time", details={"field": "calls"})


def _repeated_id(shape: ReplyShape, items: Sequence[object]) -> InvalidRequest:
    """Build the error for the first call with the id of an earlier call."""
    ids: set[str] = set()
    for place, item in enumerate(cast("Sequence[Item]", items)):
        call = shape.read_call(item, place)
        if call is None or call.is_run_elsewhere:
            continue
        if call.call_id in ids:
            break
        ids.add(call.call_id)
    return invalid_item(
        place, f".{shape.id_key}", "an earlier call has the same id; give each its own"
    )


def _without_content(outcome: Outcome) -> Outcome:
    """Return the outcome without its server's content."""
    if isinstance(outcome, Failed):
        error = copy.copy(outcome.error)
        error.details = _without(error.details or {}) or None
        return replace(outcome, error=error)
    result = _without(outcome.result)
    return replace(outcome, result=result, result_json=to_json(result))


def _without(result: JsonObject) -> JsonObject:
    return {key: value for key, value in result.items() if key != "content"}
