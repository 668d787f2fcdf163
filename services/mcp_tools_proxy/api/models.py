"""Pydantic models of request bodies, where null means absent, and of responses, for OpenAPI only.

The docstrings of these classes are part of the OpenAPI document: callers read them.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from mcp_tools_proxy.api.trace_id_types import RequestTraceId, TraceId
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.json_schema.model_api.tool_formats import ToolFormat
from mcp_tools_proxy.tools.list_available_tools import ToolWarning
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS

Name = Annotated[str, StringConstraints(min_length=1)]
Agent = Annotated[
    Identifier,
    Field(
        description=(
            "The agent, by the name of its profile in agents.json; it has to be named as soon as "
            "there are profiles, unless the gateway is set otherwise."
        )
    ),
]
Uri = Annotated[str, StringConstraints(min_length=1, max_length=MAX_URI_CHARS)]


class RequestUser(BaseModel):
    """Whom the call is made for; what is left out, a header or the token has to say."""

    user_id: Identifier | None = None
    tenant_id: Identifier | None = None
    roles: Annotated[list[str], Field(fail_fast=True)] | None = None


class CallRequest(BaseModel):
    """One tool and its arguments."""

    tool_name: Name
    arguments: dict[str, object] | None = None


class RequestContext(BaseModel):
    """What every request says of its caller."""

    user: RequestUser | None = None
    agent: Agent | None = None
    trace_id: RequestTraceId | None = None


class ExecuteRequest(CallRequest, RequestContext):
    """Body of POST /internal/mcp/execute."""


class BatchRequest(RequestContext):
    """Body of POST /internal/mcp/execute/batch."""

    calls: Annotated[list[CallRequest], Field(min_length=1, fail_fast=True)]


class PromptRequest(RequestContext):
    """Body of POST /internal/mcp/prompts/get."""

    name: Name
    arguments: dict[str, object] | None = None


class ResourceRequest(RequestContext):
    """Body of POST /internal/mcp/resources/read."""

    uri: Uri


class CallerQuery(BaseModel):
    """Query of the GET routes that list what a caller may use."""

    tenant_id: Annotated[
        Identifier | None, Field(description="Whom the list is for; it is the same for all.")
    ] = None
    user_id: Annotated[
        Identifier | None, Field(description="Whom the list is for; it is the same for all.")
    ] = None
    agent: Agent | None = None


class ToolsQuery(CallerQuery):
    """Query of GET /internal/mcp/tools."""

    format: Annotated[
        ToolFormat,
        Field(description="The shape of each tool: MCP's (the default), or that of a model API."),
    ] = ToolFormat.MCP
    names: Annotated[
        list[str] | None,
        Field(
            description=(
                "Only these tools, each by a name that `execute` takes; repeated, or several "
                "in one value parted by commas."
            )
        ),
    ] = None
    name_style: Annotated[
        ToolNameStyle | None,
        Field(
            description=(
                "How MCP's format names the servers' tools: `server:tool`, by alias, or as the "
                "server calls them; that of the agent's profile without it, else `server:tool`. "
                "The other formats name all tools by alias."
            )
        ),
    ] = None


class PresetChoice(BaseModel):
    """Body of PUT /internal/mcp/presets/active; ``persist`` also writes it to mcp.json."""

    preset_id: Name
    persist: bool | None = None


class AnswerModel(BaseModel):
    """What a response looks like, for the OpenAPI document: built with it."""

    model_config = ConfigDict(defer_build=True)


class ErrorBody(AnswerModel):
    """Why a call failed; ``code`` is stable, ``message`` is for the reader."""

    code: str
    message: str
    retryable: bool | None = None
    retry_after_s: float | None = None
    details: dict[str, object] | None = None


class OkEnvelope(AnswerModel):
    """The tool ran, or the prompt or resource was had."""

    status: Literal["ok"]
    result: dict[str, object]
    trace_id: TraceId


class ErrorEnvelope(AnswerModel):
    """The call was refused or failed."""

    status: Literal["error"]
    error: ErrorBody
    trace_id: TraceId


class BatchAnswer(AnswerModel):
    """One envelope for each call, in request order."""

    results: list[OkEnvelope | ErrorEnvelope]
    trace_id: TraceId


class McpTool(AnswerModel):
    """One tool as MCP spells it."""

    name: str
    description: str
    inputSchema: dict[str, object]  # noqa: N815 - MCP's spelling
    outputSchema: dict[str, object] | None = None  # noqa: N815 - MCP's spelling
    annotations: dict[str, object] | None = None


class AnthropicTool(AnswerModel):
    """One tool as Anthropic's Messages API takes it."""

    name: str
    description: str
    input_schema: dict[str, object]


class OpenAiFunction(AnswerModel):
    """What OpenAI's Chat Completions API is told of a function."""

    name: str
    description: str
    parameters: dict[str, object]


class OpenAiTool(AnswerModel):
    """One tool as OpenAI's Chat Completions API takes it."""

    type: Literal["function"]
    function: OpenAiFunction


Pending = list[str] | None
"""Servers that are being connected to for the first time: what they offer is not here yet."""


class ToolsAnswer(AnswerModel):
    """What the caller may run, in the format asked for."""

    tools: list[McpTool] | list[OpenAiTool] | list[AnthropicTool]
    format: ToolFormat
    warnings: list[ToolWarning] | None = None
    pending: Pending = None


class PromptsAnswer(AnswerModel):
    """The prompts that the caller may get, as their servers describe them."""

    prompts: list[dict[str, object]]
    pending: Pending = None


class ResourcesAnswer(AnswerModel):
    """What the caller may read, as its servers describe it."""

    resources: list[dict[str, object]]
    resource_templates: list[dict[str, object]]
    pending: Pending = None


class ServerAnswer(AnswerModel):
    """One downstream server; ``stale`` says that what is listed of it may be out of date."""

    server_id: str
    state: Literal["connecting", "ready", "reconnecting", "disabled", "invalid"]
    transport: Literal["stdio", "http", "streamable-http", "sse", "websocket"] | None = None
    era: str | None = None
    last_error: str | None = None
    discovered_at: datetime | None = None
    stale: bool
    counts: dict[str, int]
    connect_ms: float | None = None
    reconnects: int
    problems: list[str] | None = None


class ServersAnswer(AnswerModel):
    """Every server that mcp.json names."""

    servers: list[ServerAnswer]


class RemoteAnswer(AnswerModel):
    """The connection to the remote backend; ``off`` has nothing but its state."""

    state: Literal["off", "connecting", "online", "offline", "unauthorized"]
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


class PresetAnswer(AnswerModel):
    """One preset."""

    id: str
    name: str


class PresetsAnswer(AnswerModel):
    """The presets that can be chosen, and the id of the one in force."""

    presets: list[PresetAnswer]
    active: str


class MissingAnswer(AnswerModel):
    """An item that the preset names and no server offers."""

    kind: Literal["tool", "prompt", "resource"]
    server_id: str
    name: str


class ShadowedAnswer(MissingAnswer):
    """An item that is hidden: ``winner``, a server before this one, offers the same."""

    winner: str


class ProblemAnswer(AnswerModel):
    """Something wrong in a configuration file; ``path`` is a JSON path."""

    file: str
    path: str
    message: str


class ActivePresetAnswer(AnswerModel):
    """The preset in force, and what it names in vain."""

    preset: PresetAnswer
    missing: list[MissingAnswer]
    pending: Pending = None
    shadowed: list[ShadowedAnswer] | None = None
    problems: list[ProblemAnswer] | None = None


class HealthAnswer(AnswerModel):
    """The process serves."""

    status: Literal["ok"]


class ReadinessAnswer(AnswerModel):
    """Whether traffic should come here, and the state of each dependency in use."""

    status: Literal["ready", "degraded", "starting", "stopping"]
    checks: dict[str, dict[str, object]]
