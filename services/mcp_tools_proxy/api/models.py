"""Request bodies, where null means absent, and the answers as OpenAPI tells of them."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from mcp_tools_proxy.policy.identifiers import TRACE_ID_PATTERN, Identifier

TraceId = Annotated[str, StringConstraints(pattern=TRACE_ID_PATTERN)]
ToolName = Annotated[str, StringConstraints(min_length=1)]


class UserIn(BaseModel):
    """Whom the call is made for."""

    user_id: Identifier
    tenant_id: Identifier
    roles: list[str] | None = None


class CallIn(BaseModel):
    """One tool and its arguments."""

    tool_name: ToolName
    arguments: dict[str, object] | None = None


class ContextIn(BaseModel):
    """What every request says of its caller."""

    user: UserIn
    agent: Identifier | None = None
    trace_id: TraceId | None = None


class ExecuteIn(CallIn, ContextIn):
    """Body of POST /internal/mcp/execute."""


class BatchIn(ContextIn):
    """Body of POST /internal/mcp/execute/batch."""

    calls: Annotated[list[CallIn], Field(min_length=1)]


class ErrorOut(BaseModel):
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
    error: ErrorOut
    trace_id: TraceId


class BatchOut(BaseModel):
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


class ToolsOut(BaseModel):
    """What the caller may run."""

    tools: list[McpTool]
    format: Literal["mcp"]


class HealthOut(BaseModel):
    """The process serves."""

    status: Literal["ok"]


class ReadinessOut(BaseModel):
    """Whether traffic should come here, and the state of each dependency in use."""

    status: Literal["ready", "degraded", "starting", "stopping"]
    checks: dict[str, dict[str, object]]
