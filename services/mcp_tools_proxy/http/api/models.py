"""Pydantic models of request bodies and queries, where null means absent."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, WithJsonSchema

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.wire.identifiers import (
    IDEMPOTENCY_KEY_PATTERN,
    IDEMPOTENCY_KEY_RULE,
    MAX_DOCUMENTS,
    MAX_ROLES,
    TRACE_ID_PATTERN,
    Identifier,
    is_idempotency_key,
)
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat
from mcp_tools_proxy.wire.run_fields import RunFields
from mcp_tools_proxy.wire.tracing import is_text_or_number
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS


def _text_or_number(value: object) -> object:
    if not is_text_or_number(value):
        raise ValueError("should be a string or a number")
    return value


TraceId = Annotated[str, StringConstraints(pattern=TRACE_ID_PATTERN)]
RequestTraceId = Annotated[
    object,
    AfterValidator(_text_or_number),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}),
]


Arguments = Annotated[dict[str, object], Field(title="Arguments", description="Arguments by name.")]
Name = Annotated[str, StringConstraints(min_length=1)]
Agent = Annotated[
    Identifier,
    Field(
        description=(
            "Name of the agent's profile in agents.json. Required if there are profiles, unless "
            "the gateway is configured otherwise."
        )
    ),
]
Documents = Annotated[
    list[Identifier],
    Field(
        fail_fast=True,
        max_length=MAX_DOCUMENTS,
        description=(
            "Ids of the documents that the request is limited to; an empty list allows none. If "
            "omitted: all that the caller may read. If documents are limited in several places, "
            "only those allowed by all of them can be used."
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
            "Makes retries safe: a repeated call with the same key is not carried out again and "
            "gets the outcome of the first."
        ),
        json_schema_extra={"pattern": IDEMPOTENCY_KEY_PATTERN},
    ),
]


class RequestUser(BaseModel):
    """The user of a call. Missing fields are taken from headers or the token."""

    user_id: Identifier | None = None
    tenant_id: Identifier | None = None
    roles: Annotated[list[str], Field(fail_fast=True, max_length=MAX_ROLES)] | None = None


class CallRequest(BaseModel):
    """A tool and its arguments."""

    tool_name: Name
    arguments: Arguments | None = None
    idempotency_key: IdempotencyKey | None = None


class RequestContext(BaseModel):
    """The fields of every request about its caller and the answer."""

    user: RequestUser | None = None
    agent: Agent | None = None
    documents: Documents | None = None
    run: RunFields | None = None
    sources: Annotated[
        bool | None,
        Field(
            strict=True,
            description=(
                "Whether answers of document tools include `sources`. Default: the agent's "
                "profile, or the gateway's setting."
            ),
        ),
    ] = None
    trace_id: Annotated[
        RequestTraceId | None,
        Field(
            description=(
                "Any text or number. Characters other than printable ASCII become _, characters "
                "after the first 128 are dropped, and an empty trace id counts as absent."
            )
        ),
    ] = None


class ExecuteRequest(CallRequest, RequestContext):
    """A tool to run, its arguments and the caller."""


class BatchRequest(RequestContext):
    """A batch of plain calls. ReplyBatchRequest is for calls in a model's reply."""

    calls: Annotated[list[CallRequest], Field(min_length=1, fail_fast=True)]
    idempotency_key: IdempotencyKey | None = None


class PromptRequest(RequestContext):
    """A prompt to get, its arguments and the caller."""

    name: Name
    arguments: Arguments | None = None


class ResourceRequest(RequestContext):
    """A resource to read, and the caller."""

    uri: Uri


class CallerQuery(BaseModel):
    """Query of the GET routes that list what a caller may use."""

    tenant_id: Annotated[
        Identifier | None,
        Field(description="The caller of the list. It does not change the list."),
    ] = None
    user_id: Annotated[
        Identifier | None,
        Field(description="The caller of the list. It does not change the list."),
    ] = None
    roles: Annotated[
        list[str] | None,
        Field(
            max_length=MAX_ROLES,
            description=(
                "The caller of the list. It does not change the list. May be repeated, one role "
                "each."
            ),
        ),
    ] = None
    agent: Agent | None = None
    documents: Documents | None = None


class ToolsQuery(CallerQuery):
    """Query of GET /internal/mcp/tools."""

    format: Annotated[
        ToolFormat,
        Field(description="Format of each tool: MCP (the default) or that of a model API."),
    ] = ToolFormat.MCP
    names: Annotated[
        list[str] | None,
        Field(
            description=(
                "Only these tools, by names that `execute` accepts. May be repeated; one value "
                "may list several names, separated by commas."
            )
        ),
    ] = None
    name_style: Annotated[
        ToolNameStyle | None,
        Field(
            description=(
                "How the MCP format names servers' tools: `server:tool`, by alias, or by the "
                "server's own name. Default: the style of the agent's profile, or `server:tool`. "
                "Other formats use aliases for all tools."
            )
        ),
    ] = None

    preset_id: Annotated[
        Name | None,
        Field(
            description=(
                "For operators with the right `audit`: return the list, and `preview`, that the "
                "caller named in the query would get if this preset was active. With the id of "
                "the active preset, the list is the current one."
            )
        ),
    ] = None
