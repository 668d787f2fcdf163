"""Pydantic models of responses, for the OpenAPI document only: handlers build JSON without them.

The titles are the names of classes in clients that are made from the document: a promise. The
docstrings are part of the document, too: callers read them. An optional field is left out where it
does not apply; it is never null.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcp_tools_proxy.api.batch_routes import BatchMessage
from mcp_tools_proxy.api.models import TraceId
from mcp_tools_proxy.api.openapi.answer_fields import (
    CallResult,
    CheckStatusField,
    ErrorCodeField,
    ErrorDetails,
    ItemKindField,
    Pending,
    Prompt,
    ReadinessStatusField,
    RemoteStateField,
    Resource,
    ResourceTemplate,
    SchemaField,
    ServerCounts,
    ServerStateField,
    ServerTransportField,
    ToolAnnotationsField,
    WhyField,
)
from mcp_tools_proxy.json_schema.tool_formats import ToolFormat
from mcp_tools_proxy.tools.list_available_tools import ToolWarning


class AnswerModel(BaseModel):
    """What a response looks like, for the OpenAPI document: built with it."""

    model_config = ConfigDict(defer_build=True)


class ErrorBody(AnswerModel):
    """An error: ``code`` is for programs, ``message`` for the model or a person.

    If ``retryable`` is true, the same call may succeed later, in ``retry_after_s`` seconds if
    known.
    """

    code: ErrorCodeField
    message: str
    retryable: bool | None = None
    retry_after_s: float | None = None
    details: ErrorDetails | None = None


Replayed = Annotated[
    Literal[True] | None,
    Field(
        description=(
            "The response repeats the outcome of an earlier call with the same `idempotency_key`."
        )
    ),
]


class BudgetBody(AnswerModel, title="Budget"):
    """The budget with the smallest remaining share after this call.

    ``reset_s`` is the time until the full budget is available again, in seconds; 0 if nothing
    has been charged to it.
    """

    name: str
    remaining_calls: int | None = None
    remaining_tokens: int | None = None
    reset_s: int


class OkEnvelope(AnswerModel, title="OkResponse"):
    """The tool was run, or the prompt or resource was read."""

    status: Literal["ok"]
    result: CallResult
    trace_id: TraceId
    replayed: Replayed = None
    budget: BudgetBody | None = None


class ErrorEnvelope(AnswerModel, title="ErrorResponse"):
    """The call was refused or failed."""

    status: Literal["error"]
    error: ErrorBody
    trace_id: TraceId
    replayed: Replayed = None
    budget: BudgetBody | None = None


CallAnswer = Annotated[
    OkEnvelope | ErrorEnvelope,
    Field(
        discriminator="status",
        title="CallResponse",
        description="The outcome of a call; `status` tells success from error.",
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


BatchOrError = Annotated[
    BatchAnswer | ErrorEnvelope,
    Field(
        title="BatchResponse",
        description="The outcome of each call, or an error for the whole batch.",
    ),
]


class McpTool(AnswerModel):
    """A tool in MCP format."""

    name: str
    description: str
    inputSchema: SchemaField  # noqa: N815 - MCP's spelling
    outputSchema: SchemaField | None = None  # noqa: N815 - MCP's spelling
    annotations: ToolAnnotationsField | None = None


class AnthropicTool(AnswerModel):
    """A tool for Anthropic's Messages API."""

    name: str
    description: str
    input_schema: SchemaField


class OpenAiFunction(AnswerModel):
    """The function of a tool for OpenAI's Chat Completions API."""

    name: str
    description: str
    parameters: SchemaField


class OpenAiTool(AnswerModel):
    """A tool for OpenAI's Chat Completions API."""

    type: Literal["function"]
    function: OpenAiFunction


class GeminiTool(AnswerModel):
    """A function declaration for the Gemini API; `parameters` only if it has any."""

    name: str
    description: str
    parameters: SchemaField | None = None


Tool = Annotated[
    McpTool | OpenAiTool | AnthropicTool | GeminiTool,
    Field(title="Tool", description="A tool in the requested `format`."),
]


class PresetAnswer(AnswerModel, title="Preset"):
    """A preset."""

    id: str
    name: str


class PresetsAnswer(AnswerModel, title="PresetList"):
    """The presets and the id of the active one."""

    presets: list[PresetAnswer]
    active: str


class MissingAnswer(AnswerModel, title="MissingItem"):
    """An item of the preset that is unavailable, and the reason."""

    kind: ItemKindField
    server_id: str
    name: str
    reason: WhyField
    message: Annotated[str, Field(description="The reason as a sentence, without addresses.")]


class ShadowedAnswer(AnswerModel, title="ShadowedItem"):
    """A hidden item: an earlier server, ``winner``, offers the same."""

    kind: ItemKindField
    server_id: str
    name: str
    winner: str


class ProblemAnswer(AnswerModel, title="Problem"):
    """A problem in a configuration file; ``path`` is a JSON path."""

    file: str
    path: str
    message: str


class ActivePresetAnswer(AnswerModel, title="ActivePreset"):
    """The active preset and its items that no server offers."""

    preset: PresetAnswer
    missing: list[MissingAnswer]
    pending: Pending | None = None
    shadowed: list[ShadowedAnswer] | None = None
    problems: list[ProblemAnswer] | None = None


class PreviewedToolAnswer(AnswerModel, title="PreviewedTool"):
    """A listed tool, its source, and its token cost in the prompt.

    Tools of the gateway have no server. ``server_name`` is the tool's name at its server.
    """

    name: str
    server_id: str | None = None
    server_name: str | None = None
    tokens: Annotated[
        int,
        Field(
            description=("Estimated tokens: a quarter of its JSON size in this format, in bytes.")
        ),
    ]


class PresetPreviewAnswer(ActivePresetAnswer, title="PresetPreview"):
    """A preset, the items a switch to it would leave out, and the tools in list order."""

    active: Annotated[bool, Field(description="Whether the preset is active.")]
    agents: Annotated[
        list[str] | None,
        Field(description="All agents in agents.json; only for operators without a tenant."),
    ] = None
    tokens: Annotated[int, Field(description="Estimated tokens of all listed tools.")]
    tools: list[PreviewedToolAnswer]


class ToolsAnswer(AnswerModel, title="ToolList"):
    """The tools that the caller may run, in the requested format."""

    tools: list[Tool]
    format: ToolFormat
    warnings: list[ToolWarning] | None = None
    instructions: Annotated[
        str | None,
        Field(description="Instructions of the servers from which the caller may use items."),
    ] = None
    pending: Pending | None = None
    preview: PresetPreviewAnswer | None = None


ToolsOrError = Annotated[
    ToolsAnswer | ErrorEnvelope,
    Field(title="ToolListResponse", description="The tools, or an error."),
]


class PromptsAnswer(AnswerModel, title="PromptList"):
    """The prompts that the caller may get, as described by their servers."""

    prompts: list[Prompt]
    pending: Pending | None = None


PromptsOrError = Annotated[
    PromptsAnswer | ErrorEnvelope,
    Field(title="PromptListResponse", description="The prompts, or an error."),
]


class ResourcesAnswer(AnswerModel, title="ResourceList"):
    """The resources that the caller may read, as described by their servers."""

    resources: list[Resource]
    resource_templates: list[ResourceTemplate]
    pending: Pending | None = None


ResourcesOrError = Annotated[
    ResourcesAnswer | ErrorEnvelope,
    Field(title="ResourceListResponse", description="The resources, or an error."),
]


class SessionCountsAnswer(AnswerModel, title="SessionCounts"):
    """Sessions of a server's tenants or users: open, in use, and the maximum."""

    open: int
    busy: int
    max: int


class ServerAnswer(AnswerModel, title="Server"):
    """A downstream server. If ``stale``, its lists may be out of date.

    ``original_id`` is its name in mcp.json, if the id is derived from it.
    """

    server_id: str
    original_id: str | None = None
    state: ServerStateField
    transport: ServerTransportField | None = None
    era: str | None = None
    last_error: str | None = None
    discovered_at: datetime | None = None
    stale: bool
    counts: ServerCounts
    connect_ms: float | None = None
    reconnects: int
    attempts: Annotated[
        int | None,
        Field(description="Failed attempts since the last connection, or since the start."),
    ] = None
    next_attempt_at: datetime | None = None
    sessions: SessionCountsAnswer | None = None
    problems: list[str] | None = None


class RemoteAnswer(AnswerModel, title="RemoteStatus"):
    """The connection to the remote backend. If it is ``off``, there is only ``state``."""

    state: RemoteStateField
    since: datetime | None = None
    server_identifier: str | None = None
    backend: str | None = None
    last_error: str | None = None
    attempts: int | None = None
    next_attempt_s: float | None = None
    links: int | None = None
    sessions: int | None = None
    open_requests: int | None = None
    waiting_bytes: int | None = None


class HealthAnswer(AnswerModel, title="Health"):
    """The process is alive."""

    status: Literal["ok"]


class CheckAnswer(AnswerModel, title="ReadinessCheck", extra="allow"):
    """The state of a dependency. Other fields depend on its type."""

    status: CheckStatusField


class ReadinessAnswer(AnswerModel, title="Readiness"):
    """Whether this replica should get traffic, and the state of each dependency in use."""

    status: ReadinessStatusField
    checks: Annotated[
        dict[str, CheckAnswer],
        Field(
            title="ReadinessChecks",
            description="The state of each dependency in use: `documents`, `server:<id>` …",
        ),
    ]


class SigningKeyAnswer(AnswerModel, title="SigningKey", extra="allow"):
    """A public key (RFC 7517); the other fields are its parameters."""

    kid: str
    kty: str
    alg: str
    use: Literal["sig"]


class KeySetAnswer(AnswerModel, title="SigningKeySet"):
    """Public keys for verifying the gateway's signatures."""

    keys: list[SigningKeyAnswer]
