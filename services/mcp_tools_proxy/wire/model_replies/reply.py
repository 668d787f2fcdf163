"""A model's reply as a whole: whose API it is of, its calls, and the answer to it."""

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
"""A call that has it is a plain one, of no model's API."""

MAX_CALLS_ELSEWHERE = 256
"""Calls of one reply that are run elsewhere; 49,000 of them made an answer of 15 MB."""

_SKIPS_UNKNOWN = AnthropicMessages()
"""A shape whose items of unknown types are skipped."""

_GEMINI = GeminiParts()

_SHAPES: Sequence[ReplyShape] = (ChatCompletions(), Responses(), _SKIPS_UNKNOWN, _GEMINI)

_KEYS_OF_CALLS = frozenset({PLAIN_KEY, "name", "arguments", "input"})
"""An item with one of these is a call, if only one that went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The calls of one reply, in order; one that is run elsewhere is among them.

    ``arguments`` are those of each call in ``run_here``.
    """

    shape: ReplyShape
    calls: Sequence[ModelCall]
    run_here: Sequence[ModelCall]
    arguments: Sequence[ReadArguments]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAnswer:
    """``outcomes`` without the content that ``messages``, a JSON array in pieces, hold."""

    outcomes: Sequence[Outcome]
    messages: Sequence[bytes]


def shape_of(items: Sequence[object]) -> ReplyShape | None:
    """Return the API of which the items are, by the first that shows it; None for plain calls.

    Items that are surely no calls, and of no API that is known here, are of any.
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
    """Read the calls of a reply; ``max_items`` bounds the values in the texts of arguments.

    Raises InvalidRequest for an item of another shape, more calls than ``max_calls`` or
    MAX_CALLS_ELSEWHERE, and a call that cannot be answered: without an id, or with that of another,
    where the shape answers by ids.
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
    """Build the answer from the outcomes of the calls run here; ``in_full`` keeps all content."""
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
    """Return, as JSON, the text that a model is shown whose API takes no images in results."""
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
    """Return an item of this shape, or of a type that no shape has. Raises InvalidRequest.

    An agent that is ignored would be a wrong permission: it is named beside ``calls``.
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
    """Return whether an item may be a part of Gemini's of a kind that is not known here."""
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
    """Build the error for the first call whose id a call before it has."""
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
    """Return the outcome without the content of its server."""
    if isinstance(outcome, Failed):
        error = copy.copy(outcome.error)
        error.details = _without(error.details or {}) or None
        return replace(outcome, error=error)
    result = _without(outcome.result)
    return replace(outcome, result=result, result_json=to_json(result))


def _without(result: JsonObject) -> JsonObject:
    return {key: value for key, value in result.items() if key != "content"}
