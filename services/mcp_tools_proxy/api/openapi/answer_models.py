"""Pydantic models of responses, for the OpenAPI document only: handlers build JSON without them.

The titles are the names of classes in clients that are made from the document: a promise. The
docstrings are part of the document, too: callers read them. An optional field is left out where it
does not apply; it is never null.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcp_tools_proxy.api.batch.batch_models import BatchMessage
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
from mcp_tools_proxy.api.trace_id_types import TraceId
from mcp_tools_proxy.json_schema.model_api.tool_formats import ToolFormat
from mcp_tools_proxy.tools.list_available_tools import ToolWarning


class AnswerModel(BaseModel):
    """What a response looks like, for the OpenAPI document: built with it."""

    model_config = ConfigDict(defer_build=True)


class ErrorBody(AnswerModel):
    """Why a call failed: ``code`` is for programs, ``message`` for the model or a person.

    ``retryable``: the same call may succeed later, in ``retry_after_s`` seconds if that is known.
    """

    code: ErrorCodeField
    message: str
    retryable: bool | None = None
    retry_after_s: float | None = None
    details: ErrorDetails | None = None


Replayed = Annotated[
    Literal[True] | None,
    Field(description="It is the outcome of an earlier call with the same `idempotency_key`."),
]


class BudgetBody(AnswerModel, title="Budget"):
    """The budget with the smallest share left, once this call was charged to it.

    ``reset_s`` are the seconds until all of it is there again, 0 if nothing was charged to it.
    """

    name: str
    remaining_calls: int | None = None
    remaining_tokens: int | None = None
    reset_s: int


class OkEnvelope(AnswerModel, title="OkResponse"):
    """The tool ran, or the prompt or resource was read."""

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
        description="How a call ended; `status` says which of the two it is.",
    ),
]


class BatchAnswer(AnswerModel, title="BatchResults"):
    """How each call of a batch ended, in the order of the request."""

    results: list[CallAnswer]
    messages: (
        Annotated[
            list[BatchMessage],
            Field(description="Of a model's reply: what to append to the conversation."),
        ]
        | None
    ) = None
    trace_id: TraceId


BatchOrError = Annotated[
    BatchAnswer | ErrorEnvelope,
    Field(
        title="BatchResponse",
        description="How each call ended, or why the whole batch was refused.",
    ),
]


class McpTool(AnswerModel):
    """One tool, as MCP lists it."""

    name: str
    description: str
    inputSchema: SchemaField  # noqa: N815 - MCP's spelling
    outputSchema: SchemaField | None = None  # noqa: N815 - MCP's spelling
    annotations: ToolAnnotationsField | None = None


class AnthropicTool(AnswerModel):
    """One tool as Anthropic's Messages API takes it."""

    name: str
    description: str
    input_schema: SchemaField


class OpenAiFunction(AnswerModel):
    """The function of a tool, as OpenAI's Chat Completions API takes it."""

    name: str
    description: str
    parameters: SchemaField


class OpenAiTool(AnswerModel):
    """One tool as OpenAI's Chat Completions API takes it."""

    type: Literal["function"]
    function: OpenAiFunction


class GeminiTool(AnswerModel):
    """One function declaration, as the Gemini API takes it; `parameters` only if it has any."""

    name: str
    description: str
    parameters: SchemaField | None = None


Tool = Annotated[
    McpTool | OpenAiTool | AnthropicTool | GeminiTool,
    Field(title="Tool", description="A tool, in the `format` that was requested."),
]


class PresetAnswer(AnswerModel, title="Preset"):
    """One preset."""

    id: str
    name: str


class PresetsAnswer(AnswerModel, title="PresetList"):
    """The presets that can be chosen, and the id of the active one."""

    presets: list[PresetAnswer]
    active: str


class MissingAnswer(AnswerModel, title="MissingItem"):
    """An item that the preset names and that cannot be used, and why."""

    kind: ItemKindField
    server_id: str
    name: str
    reason: WhyField
    message: Annotated[str, Field(description="The reason as a sentence, without an address.")]


class ShadowedAnswer(AnswerModel, title="ShadowedItem"):
    """An item that is hidden: ``winner``, a server before this one, offers the same."""

    kind: ItemKindField
    server_id: str
    name: str
    winner: str


class ProblemAnswer(AnswerModel, title="Problem"):
    """Something wrong in a configuration file; ``path`` is a JSON path."""

    file: str
    path: str
    message: str


class ActivePresetAnswer(AnswerModel, title="ActivePreset"):
    """The active preset, and the items of it that no server offers."""

    preset: PresetAnswer
    missing: list[MissingAnswer]
    pending: Pending | None = None
    shadowed: list[ShadowedAnswer] | None = None
    problems: list[ProblemAnswer] | None = None


class PreviewedToolAnswer(AnswerModel, title="PreviewedTool"):
    """A tool of the list: where it comes from, and what it costs a model to be told of it.

    A tool of the gateway's own has no server. ``server_name`` is the tool's name at its server.
    """

    name: str
    server_id: str | None = None
    server_name: str | None = None
    tokens: Annotated[
        int, Field(description="An estimate: a quarter of the bytes of its JSON in this format.")
    ]


class PresetPreviewAnswer(ActivePresetAnswer, title="PresetPreview"):
    """A preset, what a switch to it would leave out, and the tools in the order of the list."""

    active: Annotated[bool, Field(description="Whether it is the active preset.")]
    agents: Annotated[
        list[str] | None,
        Field(description="All that agents.json has; for an operator without a tenant only."),
    ] = None
    tokens: Annotated[int, Field(description="Those of all tools of the list.")]
    tools: list[PreviewedToolAnswer]


class ToolsAnswer(AnswerModel, title="ToolList"):
    """The tools that the caller may run, in the format that was requested."""

    tools: list[Tool]
    format: ToolFormat
    warnings: list[ToolWarning] | None = None
    instructions: Annotated[
        str | None,
        Field(description="The instructions of the servers of which the caller may use something."),
    ] = None
    pending: Pending | None = None
    preview: PresetPreviewAnswer | None = None


ToolsOrError = Annotated[
    ToolsAnswer | ErrorEnvelope,
    Field(title="ToolListResponse", description="The tools, or why they are not listed."),
]


class PromptsAnswer(AnswerModel, title="PromptList"):
    """The prompts that the caller may get, as their servers describe them."""

    prompts: list[Prompt]
    pending: Pending | None = None


PromptsOrError = Annotated[
    PromptsAnswer | ErrorEnvelope,
    Field(title="PromptListResponse", description="The prompts, or why they are not listed."),
]


class ResourcesAnswer(AnswerModel, title="ResourceList"):
    """The resources that the caller may read, as their servers describe them."""

    resources: list[Resource]
    resource_templates: list[ResourceTemplate]
    pending: Pending | None = None


ResourcesOrError = Annotated[
    ResourcesAnswer | ErrorEnvelope,
    Field(title="ResourceListResponse", description="The resources, or why they are not listed."),
]


class SessionCountsAnswer(AnswerModel, title="SessionCounts"):
    """The sessions of a server's tenants or users: how many are open, in use, and possible."""

    open: int
    busy: int
    max: int


class ServerAnswer(AnswerModel, title="Server"):
    """One downstream server; ``stale``: what is listed of it may be out of date.

    ``original_id`` is its name in mcp.json, if its id is derived from that.
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
        Field(description="Attempts that failed since it was connected last, or since the start."),
    ] = None
    next_attempt_at: datetime | None = None
    sessions: SessionCountsAnswer | None = None
    problems: list[str] | None = None


class RemoteAnswer(AnswerModel, title="RemoteStatus"):
    """The connection to the remote backend; where that is ``off`` there is only ``state``."""

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
    """The process serves."""

    status: Literal["ok"]


class CheckAnswer(AnswerModel, title="ReadinessCheck", extra="allow"):
    """The state of one dependency; the other fields depend on what it is."""

    status: CheckStatusField


class ReadinessAnswer(AnswerModel, title="Readiness"):
    """Whether traffic should come here, and the state of each dependency in use."""

    status: ReadinessStatusField
    checks: Annotated[
        dict[str, CheckAnswer],
        Field(
            title="ReadinessChecks",
            description="The state of each dependency in use: `documents`, `server:<id>` …",
        ),
    ]


class SigningKeyAnswer(AnswerModel, title="SigningKey", extra="allow"):
    """A public key as RFC 7517 has it; the other fields are its numbers."""

    kid: str
    kty: str
    alg: str
    use: Literal["sig"]


class KeySetAnswer(AnswerModel, title="SigningKeySet"):
    """The public keys that verify what the gateway signs."""

    keys: list[SigningKeyAnswer]
