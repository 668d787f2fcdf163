"""Request bodies, where null means absent, and the answers as OpenAPI tells of them."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from mcp_tools_proxy.policy.identifiers import TRACE_ID_PATTERN, Identifier

TraceId = Annotated[str, StringConstraints(pattern=TRACE_ID_PATTERN)]
ToolName = Annotated[str, StringConstraints(min_length=1)]


class RequestUser(BaseModel):
    """Whom the call is made for."""

    user_id: Identifier
    tenant_id: Identifier
    roles: Annotated[list[str], Field(fail_fast=True)] | None = None


class CallRequest(BaseModel):
    """One tool and its arguments."""

    tool_name: ToolName
    arguments: dict[str, object] | None = None


class RequestContext(BaseModel):
    """What every request says of its caller."""

    user: RequestUser
    agent: Identifier | None = None
    trace_id: TraceId | None = None


class ExecuteRequest(CallRequest, RequestContext):
    """Body of POST /internal/mcp/execute."""


class BatchRequest(RequestContext):
    """Body of POST /internal/mcp/execute/batch."""

    calls: Annotated[list[CallRequest], Field(min_length=1, fail_fast=True)]


class ErrorBody(BaseModel):
    """Why a call failed; ``code`` is stable, ``message`` is for the reader."""

    code: str
    message: str
    retryable: bool | None = None
    retry_after_s: float | None = None
    details: dict[str, object] | None = None


class OkEnvelope(BaseModel):
    """The tool ran."""

    status: Literal["ok"]
    result: dict[str, object]
    trace_id: TraceId


class ErrorEnvelope(BaseModel):
    """The call was refused or failed."""

    status: Literal["error"]
    error: ErrorBody
    trace_id: TraceId


class BatchAnswer(BaseModel):
    """One envelope for each call, in request order."""

    results: list[OkEnvelope | ErrorEnvelope]
    trace_id: TraceId


class McpTool(BaseModel):
    """One tool as MCP spells it."""

    name: str
    description: str
    inputSchema: dict[str, object]  # noqa: N815 - MCP's spelling
    outputSchema: dict[str, object] | None = None  # noqa: N815 - MCP's spelling
    annotations: dict[str, object] | None = None


class ToolsAnswer(BaseModel):
    """What the caller may run."""

    tools: list[McpTool]
    format: Literal["mcp"]


class HealthAnswer(BaseModel):
    """The process serves."""

    status: Literal["ok"]


class ReadinessAnswer(BaseModel):
    """Whether traffic should come here, and the state of each dependency in use."""

    status: Literal["ready", "degraded", "starting", "stopping"]
    checks: dict[str, dict[str, object]]
