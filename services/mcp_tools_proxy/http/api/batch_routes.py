"""The route of batches: plain calls, or the calls of a model's reply in the format of its API.

Only ``ReplyRequest`` validates; ``model_replies`` parses its items. The other models are for the
OpenAPI document, including their docstrings; most are a TypedDict, which takes a tenth of the start
time of a model.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

from fastapi import Response
from pydantic import ConfigDict, Field, RootModel, StringConstraints
from typing_extensions import TypedDict

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.documents.tools.local_tools import EXAMPLES
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.errors import InvalidArguments, InvalidRequest
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.http.api.answer_models import AnswerModel, CallAnswer, or_error
from mcp_tools_proxy.http.api.call_routes import (
    EXAMPLE_USER,
    carry_out,
    idempotency_key_of,
    key_in_batch,
    run_of,
)
from mcp_tools_proxy.http.api.endpoint import ParsedRequest, resolve_user, validate
from mcp_tools_proxy.http.api.models import BatchRequest, IdempotencyKey, RequestContext, TraceId
from mcp_tools_proxy.http.api.openapi import (
    TOOL_HEADERS,
    Answer,
    Examples,
    Responses,
    Tag,
    errors_of,
)
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.http.body import PACED_BYTES
from mcp_tools_proxy.http.request_headers import TRACE_HEADER, trace_context_from
from mcp_tools_proxy.http.request_refusals import route_of
from mcp_tools_proxy.http.responses import JSON, batch_envelope, reply_response
from mcp_tools_proxy.telemetry.request_events import RequestFacts, RequestTelemetry

CallId = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,16384}$")]
"""Same as ``CALL_ID_PATTERN`` of ``model_replies``, which is imported with the first reply."""

ResultsWanted = Annotated[
    Literal["full"] | None,
    Field(description="`full`: `results` keep the content that `messages` repeat."),
]


class ReplyRequest(RequestContext):
    """A batch whose ``calls`` are a model's reply; the items are read by ``model_replies``."""

    calls: list[object]
    results: ResultsWanted = None
    idempotency_key: IdempotencyKey | None = None


class ModelFunction(TypedDict):
    """The function called by a model; `arguments` is a JSON string."""

    name: str
    arguments: NotRequired[object]


class ChatToolCall(TypedDict):
    """An entry of `tool_calls` in OpenAI's Chat Completions."""

    id: CallId
    type: NotRequired[
        Annotated[str | None, Field(description="`function`. Some providers send another text.")]
    ]
    function: ModelFunction


class CustomTool(TypedDict):
    """A custom tool, which takes text."""

    name: str


class ChatCustomCall(TypedDict):
    """A call of a custom tool. It fails: only functions can be run."""

    id: CallId
    type: Literal["custom"]
    custom: CustomTool


class ResponsesCall(TypedDict):
    """A call in the `output` of OpenAI's Responses. Calls of custom tools fail."""

    type: Literal["function_call", "custom_tool_call"]
    call_id: CallId
    name: str
    arguments: NotRequired[object]


class ResponsesOtherItem(TypedDict):
    """Another item of `output`. It is skipped, or fails if it is a tool call."""

    type: Annotated[
        str,
        open_names(
            "ResponsesOtherItemType",
            "Type of the item.",
            ["message", "reasoning", "web_search_call", "file_search_call", "mcp_call"],
        ),
    ]


class ToolUseBlock(TypedDict):
    """A call in the `content` of Anthropic's Messages."""

    type: Literal["tool_use"]
    id: CallId
    name: str
    input: NotRequired[object]


class AnthropicOtherBlock(TypedDict):
    """Another block of `content`. It is skipped, or fails if it is a tool call."""

    type: Annotated[
        str,
        open_names(
            "AnthropicOtherBlockType",
            "Type of the block.",
            ["text", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"],
        ),
    ]


class GeminiFunctionCall(TypedDict):
    """The function called by Gemini; `id` is optional."""

    name: str
    args: NotRequired[object]
    id: NotRequired[CallId]


class GeminiCallPart(TypedDict):
    """A call in the `parts` of Gemini's content. Other parts are skipped."""

    functionCall: GeminiFunctionCall


class GeminiTextPart(TypedDict):
    """A text in the `parts`. It is skipped, like all parts other than calls."""

    text: str


class ReplyBatchRequest(RequestContext):
    """The calls in a model's reply, unchanged and all from one API."""

    model_config = ConfigDict(defer_build=True)

    calls: (
        Annotated[list[ChatToolCall | ChatCustomCall], Field(min_length=1)]
        | Annotated[list[ResponsesCall | ResponsesOtherItem], Field(min_length=1)]
        | Annotated[list[ToolUseBlock | AnthropicOtherBlock], Field(min_length=1)]
        | Annotated[list[GeminiCallPart | GeminiTextPart], Field(min_length=1)]
    )
    results: ResultsWanted = None
    idempotency_key: IdempotencyKey | None = None


class BatchBody(RootModel[Any]):  # RootModel of the two would be built at import, in 8 ms
    """Body of POST /internal/mcp/execute/batch."""

    model_config = ConfigDict(defer_build=True)

    root: BatchRequest | ReplyBatchRequest


class ChatToolMessage(TypedDict):
    """The result of a call, for OpenAI's Chat Completions."""

    role: Literal["tool"]
    tool_call_id: str
    content: str


class InputText(TypedDict):
    """A text in the output of a call."""

    type: Literal["input_text"]
    text: str


class InputImage(TypedDict):
    """An image in the output of a call; `image_url` is a data URL."""

    type: Literal["input_image"]
    image_url: str


class ResponsesCallOutput(TypedDict):
    """The result of one call, for OpenAI's Responses."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str | list[InputText | InputImage]
    caller: NotRequired[
        Annotated[
            dict[str, object],
            Field(title="OutputCaller", description="The model's program that made the call."),
        ]
    ]


class TextBlock(TypedDict):
    """A text in the result of a call."""

    type: Literal["text"]
    text: str


class ImageSource(TypedDict):
    """An image in base64."""

    type: Literal["base64"]
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: str


class ImageBlock(TypedDict):
    """An image in the result of a call."""

    type: Literal["image"]
    source: ImageSource


class ToolResultBlock(TypedDict):
    """The result of one call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock]
    is_error: bool
    toolset_name: NotRequired[str]


class ToolResultsMessage(TypedDict):
    """The results of all calls, for Anthropic's Messages."""

    role: Literal["user"]
    content: list[ToolResultBlock]


class GeminiResponse(TypedDict):
    """A function's result, as JSON or text."""

    output: NotRequired[str]
    error: NotRequired[str]


class GeminiFunctionResponse(TypedDict):
    """The result of one call."""

    name: str
    response: GeminiResponse
    id: NotRequired[str]


class GeminiResponsePart(TypedDict):
    """A part with the result of one call."""

    functionResponse: GeminiFunctionResponse


class GeminiResultsContent(TypedDict):
    """The results of all calls, for Gemini."""

    role: Literal["user"]
    parts: list[GeminiResponsePart]


BatchMessage = Annotated[
    ChatToolMessage | ResponsesCallOutput | ToolResultsMessage | GeminiResultsContent,
    Field(
        title="BatchMessage", description=("A message to append, in the format of the model's API.")
    ),
]


class BatchAnswer(AnswerModel, title="BatchResults"):
    """Outcomes of the calls of a batch, in the order of the request."""

    results: list[CallAnswer]
    messages: (
        Annotated[
            list[BatchMessage],
            Field(description="For a model's reply: the messages to append to the conversation."),
        ]
        | None
    ) = None
    trace_id: TraceId


BatchOrError = or_error(
    BatchAnswer, "BatchResponse", "The outcome of each call, or an error for the whole batch."
)


BATCH_RESPONSES: Responses = {
    200: Answer(
        "The outcome of each call. If an agent is required but none is named, each call fails "
        "with AGENT_REQUIRED. If the token is for several agents and none is named, the whole "
        "batch fails with AGENT_REQUIRED: also 200, with status `error`.",
        BatchOrError,
    ),
    **errors_of(401, 403, 413, 422, 500, 503),
}


_NAME, _TEXT = "read_doc_metadata", '{"doc_id": "doc_1"}'

_REPLY_EXAMPLES: Examples = {
    "tool_calls of OpenAI's Chat Completions": {
        "calls": [
            {"id": "call_1", "type": "function", "function": {"name": _NAME, "arguments": _TEXT}}
        ],
        "user": EXAMPLE_USER,
    },
    "output of OpenAI's Responses": {
        "calls": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "call_1", "name": _NAME, "arguments": _TEXT},
        ],
        "user": EXAMPLE_USER,
    },
    "content of Anthropic's Messages": {
        "calls": [
            {"type": "text", "text": "I look it up."},
            {"type": "tool_use", "id": "toolu_1", "name": _NAME, "input": {"doc_id": "doc_1"}},
        ],
        "user": EXAMPLE_USER,
    },
    "parts of Gemini's content": {
        "calls": [
            {"text": "I look it up."},
            {"functionCall": {"name": _NAME, "args": {"doc_id": "doc_1"}}},
        ],
        "user": EXAMPLE_USER,
    },
}

BATCH_EXAMPLES: Examples = {
    "two calls at once": {
        "calls": [
            {"tool_name": name, "arguments": EXAMPLES[name]}
            for name in ("read_doc_metadata", "doc_local_search")
        ],
        "user": EXAMPLE_USER,
    },
    **_REPLY_EXAMPLES,
}


class BatchRoutes(Feature):
    """Runs several tools concurrently, all through the executor and its checks."""

    tag = Tag.CALLS

    def __init__(
        self,
        callers: CallerResolver,
        executor: Executor,
        lifecycle: Lifecycle,
        *,
        max_batch_calls: int,
        max_json_items: int,
        max_text_bytes: int,
        telemetry: RequestTelemetry,
    ) -> None:
        self._callers = callers
        self._executor = executor
        self._lifecycle = lifecycle
        self._max_batch_calls = max_batch_calls
        self._max_json_items = max_json_items
        self._max_text_bytes = max_text_bytes
        self._telemetry = telemetry

    def read_batch(self, body: object) -> BatchRequest | ReplyRequest:
        """Validate the body of a batch by the kind of its calls. Raises InvalidRequest."""
        calls = body.get("calls") if isinstance(body, dict) else None
        if isinstance(calls, list):
            if _is_model_reply(calls):
                return validate(ReplyRequest, body)
            self._check_calls(calls)
        return validate(BatchRequest, body)

    @operation(
        "POST",
        "/internal/mcp/execute/batch",
        responses=BATCH_RESPONSES,
        headers=TOOL_HEADERS,
        examples=BATCH_EXAMPLES,
        body=BatchBody,
        read=read_batch,
        is_fast=True,
    )
    async def execute_batch(self, parsed: ParsedRequest[BatchRequest | ReplyRequest]) -> Response:
        """Run several tools in parallel.

        A batch has 1 to `MCP_PROXY_MAX_BATCH_CALLS` calls (default 32). Calls are checked and
        charged individually; results are in the order of the calls. `calls`
        can also be part of a model's answer, unchanged: `tool_calls` of OpenAI's Chat Completions,
        `output` of OpenAI's Responses, `content` of Anthropic's Messages, or `parts` of Gemini's
        content. In this case, `messages` are the messages to append to the conversation.
        """
        if isinstance(parsed.body, ReplyRequest):
            return await self._execute_reply(parsed, parsed.body)
        caller = await resolve_user(self._callers, parsed)
        self._lifecycle.check_serving()
        new_call = _call_builder(parsed, caller)
        of_batch = idempotency_key_of(parsed, parsed.body.idempotency_key)
        calls = [
            new_call(
                name=one.tool_name,
                arguments=one.arguments or {},
                idempotency_key=one.idempotency_key or key_in_batch(of_batch, place),
            )
            for place, one in enumerate(parsed.body.calls)
        ]
        outcomes = await self._run_all(parsed, caller, calls)
        trace_id = parsed.trace_id
        return Response(
            batch_envelope(outcomes, trace_id), headers={TRACE_HEADER: trace_id}, media_type=JSON
        )

    async def _execute_reply(
        self, parsed: ParsedRequest[BatchRequest | ReplyRequest], body: ReplyRequest
    ) -> Response:
        # for replies only
        from mcp_tools_proxy.wire.model_replies.reply import answer_of, read_reply  # noqa: PLC0415

        reply = read_reply(
            body.calls, max_calls=self._max_batch_calls, max_items=self._max_json_items
        )
        if parsed.body_bytes > PACED_BYTES:
            await asyncio.sleep(0)  # parsing the texts took up to 40 ms, like a body
        caller = await resolve_user(self._callers, parsed)
        self._lifecycle.check_serving()
        new_call = _call_builder(parsed, caller)
        of_batch = idempotency_key_of(parsed, body.idempotency_key)
        keys = [
            one.idempotency_key or key_in_batch(of_batch, place)
            for place, one in enumerate(reply.run_here)
        ]
        calls = [
            new_call(name=one.name, arguments={}, refusal=arguments)
            if isinstance(arguments, InvalidArguments)
            else new_call(
                name=one.name, arguments=arguments, refusal=one.refusal, idempotency_key=key
            )
            for one, arguments, key in zip(reply.run_here, reply.arguments, keys, strict=True)
        ]
        outcomes = await self._run_all(parsed, caller, calls)
        answer = answer_of(
            reply,
            outcomes,
            in_full=body.results == "full",
            max_text_bytes=self._max_text_bytes,
        )
        return reply_response(answer.outcomes, parsed.trace_id, answer.messages)

    def _check_calls(self, calls: Sequence[object]) -> None:
        """Check plain calls as a whole before each is validated.

        Raises InvalidRequest for a batch that is too long, or calls that name agents or runs:
        elsewhere unknown fields are ignored, but an ignored one would grant the wrong permissions.
        """
        if len(calls) > self._max_batch_calls:
            raise InvalidRequest(
                f"calls: {len(calls)} calls were sent, the limit is {self._max_batch_calls}; send "
                "fewer at a time",
                details={"field": "calls"},
            )
        for number, call in enumerate(calls):
            for name in ("agent", "run"):
                if isinstance(call, dict) and call.get(name) is not None:
                    field = f"calls.{number}.{name}"
                    raise InvalidRequest(
                        f"{field}: a call cannot have its own {name}; set one for the whole "
                        "batch, beside calls",
                        details={"field": field},
                    )

    async def _run_all(
        self, parsed: ParsedRequest[RequestContext], caller: Caller, calls: Sequence[Call]
    ) -> Sequence[Outcome]:
        request = RequestFacts(route_of(parsed.request.scope), parsed.trace_id)
        self._telemetry.batch(caller, request, calls=len(calls), request_bytes=parsed.body_bytes)
        return await carry_out(parsed, self._outcomes_of(calls), calls)

    async def _outcomes_of(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._executor.execute(call)) for call in calls]
        return [task.result() for task in tasks]


def _is_model_reply(calls: Sequence[object]) -> bool:
    """Return whether these are items of a model's API; most batches have plain calls."""
    if not calls or (isinstance(calls[0], dict) and "tool_name" in calls[0]):
        return False
    # for replies only
    from mcp_tools_proxy.wire.model_replies.reply import shape_of  # noqa: PLC0415

    return shape_of(calls) is not None


def _call_builder(parsed: ParsedRequest[RequestContext], caller: Caller) -> partial[Call]:
    return partial(
        Call,
        caller=caller,
        sources=parsed.body.sources,
        run=run_of(parsed),
        trace_id=parsed.trace_id,
        trace_context=trace_context_from(parsed.request.headers),
        route=route_of(parsed.request.scope),
    )
