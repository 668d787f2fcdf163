"""Pydantic models of request bodies and queries, where null means absent.

The docstrings of these classes are part of the OpenAPI document: callers read them.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from mcp_tools_proxy.api.trace_id_types import RequestTraceId
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.json_schema.model_api.tool_formats import ToolFormat
from mcp_tools_proxy.wire.identifiers import (
    IDEMPOTENCY_KEY_PATTERN,
    IDEMPOTENCY_KEY_RULE,
    MAX_DOCUMENTS,
    MAX_ROLES,
    Identifier,
    is_idempotency_key,
)
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS

Arguments = Annotated[dict[str, object], Field(title="Arguments", description="Arguments by name.")]
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
Documents = Annotated[
    list[Identifier],
    Field(
        fail_fast=True,
        max_length=MAX_DOCUMENTS,
        description=(
            "The only documents that may be used, by their ids; an empty list is none. Left out: "
            "every one that the caller may read. Each place that names documents only narrows."
        ),
    ),
]
Uri = Annotated[str, StringConstraints(min_length=1, max_length=MAX_URI_CHARS)]


def _check_idempotency_key(key: str) -> str:
    if not is_idempotency_key(key):
        raise ValueError(IDEMPOTENCY_KEY_RULE)
    return key


IdempotencyKey = Annotated[
    str,
    AfterValidator(_check_idempotency_key),
    Field(
        description=(
            "Makes it safe to send the call again: the same call with the same key has the outcome "
            "of the first one, and is carried out once."
        ),
        json_schema_extra={"pattern": IDEMPOTENCY_KEY_PATTERN},
    ),
]


class RequestUser(BaseModel):
    """The user that a call is made for; what is left out is taken from headers or the token."""

    user_id: Identifier | None = None
    tenant_id: Identifier | None = None
    roles: Annotated[list[str], Field(fail_fast=True, max_length=MAX_ROLES)] | None = None


class CallRequest(BaseModel):
    """One tool and its arguments."""

    tool_name: Name
    arguments: Arguments | None = None
    idempotency_key: IdempotencyKey | None = None


class RequestContext(BaseModel):
    """What every request says of its caller, and of the answers."""

    user: RequestUser | None = None
    agent: Agent | None = None
    documents: Documents | None = None
    sources: Annotated[
        bool | None,
        Field(
            strict=True,
            description=(
                "Whether answers of document tools have `sources`. Left out: as the agent's "
                "profile says, or the gateway's setting."
            ),
        ),
    ] = None
    trace_id: RequestTraceId | None = None


class ExecuteRequest(CallRequest, RequestContext):
    """One tool to run, its arguments and the caller."""


class BatchRequest(RequestContext):
    """A batch of plain calls; ReplyBatchRequest is for the calls of a model's reply."""

    calls: Annotated[list[CallRequest], Field(min_length=1, fail_fast=True)]
    idempotency_key: IdempotencyKey | None = None


class PromptRequest(RequestContext):
    """One prompt to get, its arguments and the caller."""

    name: Name
    arguments: Arguments | None = None


class ResourceRequest(RequestContext):
    """One resource to read, and the caller."""

    uri: Uri


class CallerQuery(BaseModel):
    """Query of the GET routes that list what a caller may use."""

    tenant_id: Annotated[
        Identifier | None,
        Field(description="Who the list is for; it does not change what is listed."),
    ] = None
    user_id: Annotated[
        Identifier | None,
        Field(description="Who the list is for; it does not change what is listed."),
    ] = None
    roles: Annotated[
        list[str] | None,
        Field(
            max_length=MAX_ROLES,
            description=(
                "Who the list is for; it does not change what is listed. May be repeated: one "
                "role each."
            ),
        ),
    ] = None
    agent: Agent | None = None
    documents: Documents | None = None


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
                "Only these tools, each by a name that `execute` takes. The parameter may be "
                "repeated, and one value may have several names, separated by commas."
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

    preset_id: Annotated[
        Name | None,
        Field(
            description=(
                "For operators with the right `audit`: the list that the caller of this query "
                "would get if this preset were the active one, and `preview`. The active one's id "
                "shows what that caller gets now."
            )
        ),
    ] = None


class PresetChoice(BaseModel):
    """The preset to choose; unless ``persist`` is false, the choice is also written to mcp.json."""

    preset_id: Name
    persist: bool | None = None
