"""Pydantic models of a batch: of a model's reply, and of the messages that follow it.

Only ``ReplyRequest`` validates; ``model_replies`` reads its items. The others describe them in the
OpenAPI document, where their docstrings are; most are a TypedDict, which costs a start a tenth of
what a model does.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, RootModel, StringConstraints
from typing_extensions import TypedDict

from mcp_tools_proxy.api.models import BatchRequest, IdempotencyKey, RequestContext
from mcp_tools_proxy.api.openapi.shared_schemas import open_names

CallId = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,16384}$")]
"""As ``CALL_ID_PATTERN`` of ``model_replies``, which is imported with the first reply."""

ResultsWanted = Annotated[
    Literal["full"] | None,
    Field(description="`full` keeps content in the results that `messages` contains as well."),
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
    type: NotRequired[Literal["function"] | None]
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


class BatchBody(RootModel[Any]):  # RootModel of the two would be built at once, in 8 ms
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
