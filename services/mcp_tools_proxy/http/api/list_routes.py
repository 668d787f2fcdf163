"""Lists tools, prompts, resources and documents of a caller.

Documents are listed by a call of the tool list_documents.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.documents.tools.list_available_tools import ToolWarning
from mcp_tools_proxy.documents.tools.list_documents import LIST_DOCUMENTS, MAX_CURSOR_CHARS
from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller, Kind
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.identity import AssertedIdentity, OperatorRight, roles_of
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.outcome import Ok
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.preset_switch import PresetPreview, PresetPreviews
from mcp_tools_proxy.http.api.answer_models import AnswerModel, Object, or_error
from mcp_tools_proxy.http.api.document_models import DateField, LanguageField, MetadataField
from mcp_tools_proxy.http.api.endpoint import ParsedRequest, asserted_by_query, validate
from mcp_tools_proxy.http.api.models import Agent, CallerQuery, Documents, ToolsQuery
from mcp_tools_proxy.http.api.openapi import (
    CALLER_HEADERS,
    ETAG,
    LIST_HEADERS,
    RETRY_AFTER,
    SHARED_ANSWERS,
    Answer,
    Responses,
    Tag,
    errors_of,
    refusal,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.preset_routes import ActivePresetAnswer, Pending
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.body import cancel_on_disconnect
from mcp_tools_proxy.http.list_query import name_style_of
from mcp_tools_proxy.http.request_headers import TRACE_HEADER, trace_context_from
from mcp_tools_proxy.http.request_refusals import add_to_operation, route_of
from mcp_tools_proxy.http.responses import JSON, POLICY_HEADER, RATE_LIMIT_HEADER, outcome_response
from mcp_tools_proxy.registry.list_cache import etag_of
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.registry.tool_lists import ListBody, ToolList
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.telemetry.request_events import RequestFacts, RequestTelemetry
from mcp_tools_proxy.wire.identifiers import MAX_ROLES, Identifier
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat
from mcp_tools_proxy.wire.text import estimate_tokens

_SEVERAL_VALUED = ("names", "roles", "documents")
_SINGLE_VALUED = (
    *(key for key in CallerQuery.model_fields if key not in _SEVERAL_VALUED),
    "format",
    "preset_id",
)
_ENTITY_TAG = re.compile(r'"[^"]*"')


SchemaField = Annotated[Object, Field(title="JsonSchema", description="A JSON Schema.")]


ToolAnnotationsField = Annotated[
    Object,
    Field(title="ToolAnnotations", description="The tool's annotations, as MCP defines them."),
]


Prompt = Annotated[Object, Field(title="Prompt", description="A prompt in MCP format.")]


Resource = Annotated[Object, Field(title="Resource", description="A resource in MCP format.")]


ResourceTemplate = Annotated[
    Object, Field(title="ResourceTemplate", description="A resource template in MCP format.")
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
    """A preset, the items a switch to it would leave out, and the tools in list order.

    `problems` are only for operators without a tenant.
    """

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


ToolsOrError = or_error(ToolsAnswer, "ToolListResponse", "The tools, or an error.")


class PromptsAnswer(AnswerModel, title="PromptList"):
    """The prompts that the caller may get, as described by their servers."""

    prompts: list[Prompt]
    pending: Pending | None = None


PromptsOrError = or_error(PromptsAnswer, "PromptListResponse", "The prompts, or an error.")


class ResourcesAnswer(AnswerModel, title="ResourceList"):
    """The resources that the caller may read, as described by their servers."""

    resources: list[Resource]
    resource_templates: list[ResourceTemplate]
    pending: Pending | None = None


ResourcesOrError = or_error(ResourcesAnswer, "ResourceListResponse", "The resources, or an error.")


class ToolPreviews:
    """Lists tools of any caller; the operator acts for the caller in the query."""

    def __init__(
        self,
        previews: PresetPreviews,
        gate: OperatorGate,
        callers: CallerResolver,
        first_attempts: FirstAttempts,
    ) -> None:
        self._previews = previews
        self._gate = gate
        self._callers = callers
        self._first_attempts = first_attempts

    async def list_tools(
        self,
        parsed: ParsedRequest[None],
        query: ToolsQuery,
        preset_id: str,
        requested_style: ToolNameStyle | None,
    ) -> ListBody:
        """List the tools with a preset. Raises the errors of the gate, a switch, and a list."""
        operator = await self._gate.check(parsed, OperatorRight.AUDIT, tenant_id=query.tenant_id)
        named = {"preset_id": preset_id, "user_id": query.user_id, "agent": query.agent}
        add_to_operation(parsed.request.scope, **{key: cut(it) for key, it in named.items() if it})
        caller = self._callers.resolve_trusted(asserted_by_query(query))
        preview = await self._previews.preview(preset_id)
        registry = preview.registry
        style = registry.name_styles.over_http(requested_style, caller.agent)
        tools = await registry.list_tools(caller, query.format, query.names, style)
        pending = self._first_attempts.pending_for(caller, Kind.TOOL, registry)
        permissions = registry.access_rules.permissions_of(caller)
        instructions = registry.instructions.text_for(permissions)
        shown = _preview(preview, tools)
        if operator.tenant_id is None:
            shown.agents = sorted(registry.access_rules.agents or ())
        else:  # paths and values of files concern all tenants
            shown.problems = None
        more = {
            "instructions": instructions,
            "pending": pending or None,
            "preview": shown.model_dump(mode="json", exclude_none=True),
        }
        return ListBody.of(tools, without_none(more))


def _preview(preview: PresetPreview, tools: ToolList) -> PresetPreviewAnswer:
    costs = [estimate_tokens(size) for size in tools.sizes]
    listed = [
        PreviewedToolAnswer(
            name=name,
            server_id=spec.server_id,
            server_name=None if spec.server_id is None else spec.bare_name,
            tokens=tokens,
        )
        for name, spec, tokens in zip(tools.names, tools.specs, costs, strict=True)
    ]
    return PresetPreviewAnswer.of(
        preview.state, active=preview.is_active, tokens=sum(costs), tools=listed
    )


def list_responses(model: object) -> Responses:
    """Return the responses of a route that lists components of a caller."""
    description = (
        "The list. Errors that the caller can handle, such as AGENT_REQUIRED, are also 200, with "
        "status `error`."
    )
    listed = Answer(description, model, (TRACE_HEADER, ETAG))
    return {200: listed, **errors_of(304, 401, 403, 422, 500)}


_INVALID_NAME_STYLE = refusal(
    "INVALID_REQUEST: `name_style` is not one of the three styles, or is repeated."
)
"""The response 400 of the only route with a style of names."""


class ListRoutes(Feature):
    """Operations that list components of a caller; 304 if the client has the current list."""

    tag = Tag.LISTS

    def __init__(
        self,
        callers: CallerResolver,
        registry: RegistryHolder,
        first_attempts: FirstAttempts,
        telemetry: RequestTelemetry,
        previews: ToolPreviews,
    ) -> None:
        self._callers = callers
        self._registry = registry
        self._first_attempts = first_attempts
        self._telemetry = telemetry
        self._previews = previews

    @operation(
        "GET",
        "/internal/mcp/tools",
        responses={
            **list_responses(ToolsOrError),
            400: _INVALID_NAME_STYLE,
            404: SHARED_ANSWERS[404],
        },
        query=ToolsQuery,
        headers=LIST_HEADERS,
    )
    async def list_tools(self, parsed: ParsedRequest[None]) -> Response:
        """List tools that the caller may run.

        Lists tools in MCP format, or in the format of a model API with aliases as names. The output
        is byte-identical as long as the tools do not change. With `preset_id`, operators with the
        right `audit` get the list for another preset and another caller, who is named only in the
        query.
        """
        request = parsed.request
        requested_style = name_style_of(request.scope)
        query = validate(ToolsQuery, _values(request.query_params))
        if query.preset_id is not None:
            listed = await self._previews.list_tools(
                parsed, query, query.preset_id, requested_style
            )
            return _list_response(parsed, listed.etag, listed.join)
        caller = await self._callers.resolve(request.scope, asserted_by_query(query))
        registry = self._registry.current
        style = registry.name_styles.over_http(requested_style, caller.agent)
        tools = await registry.list_tools(caller, query.format, query.names, style)
        self._record(parsed, caller, registry, items=len(tools))
        pending = self._first_attempts.pending_for(caller, Kind.TOOL)
        permissions = registry.access_rules.permissions_of(caller)
        instructions = registry.instructions.text_for(permissions)
        more = {"instructions": instructions, "pending": pending or None}
        listed = ListBody.of(tools, without_none(more))
        return _list_response(parsed, listed.etag, listed.join)

    @operation(
        "GET",
        "/internal/mcp/prompts",
        responses=list_responses(PromptsOrError),
        query=CallerQuery,
        headers=LIST_HEADERS,
    )
    async def list_prompts(self, parsed: ParsedRequest[None]) -> Response:
        """List prompts that the caller may get."""
        caller = await self._lister(parsed.request)
        current = self._registry.current
        permissions = current.access_rules.permissions_of(caller)
        prompts = current.listings.prompts.definitions_for(permissions)
        self._record(parsed, caller, current, items=len(prompts))
        return self._response(parsed, caller, Kind.PROMPT, {"prompts": prompts})

    @operation(
        "GET",
        "/internal/mcp/resources",
        responses=list_responses(ResourcesOrError),
        query=CallerQuery,
        headers=LIST_HEADERS,
    )
    async def list_resources(self, parsed: ParsedRequest[None]) -> Response:
        """List resources that the caller may read."""
        caller = await self._lister(parsed.request)
        current = self._registry.current
        permissions = current.access_rules.permissions_of(caller)
        listed = {
            "resources": current.listings.resources.definitions_for(permissions),
            "resource_templates": current.listings.templates.definitions_for(permissions),
        }
        self._record(parsed, caller, current, items=sum(map(len, listed.values())))
        return self._response(parsed, caller, Kind.RESOURCE, listed)

    def _record(
        self, parsed: ParsedRequest[None], caller: Caller, registry: Registry, *, items: int
    ) -> None:
        request = RequestFacts(route_of(parsed.request.scope), parsed.trace_id)
        self._telemetry.listed(caller, request, registry.version, items=items)

    async def _lister(self, request: Request) -> Caller:
        query = validate(CallerQuery, _values(request.query_params))
        return await self._callers.resolve(request.scope, asserted_by_query(query))

    def _response(
        self,
        parsed: ParsedRequest[None],
        caller: Caller,
        kind: Kind,
        content: Mapping[str, object],
    ) -> Response:
        pending = self._first_attempts.pending_for(caller, kind)
        body = to_json({**content, "pending": pending} if pending else content)
        return _list_response(parsed, etag_of(body), lambda: body)


def _list_response(parsed: ParsedRequest[None], etag: str, body: Callable[[], bytes]) -> Response:
    headers = {TRACE_HEADER: parsed.trace_id, "ETag": etag, "Cache-Control": "private, no-cache"}
    if _matches_etag(parsed.request.headers, etag):
        return Response(None, 304, headers)
    return Response(body(), 200, headers, JSON)


def _values(query: QueryParams) -> dict[str, object]:
    """Return the query parameters. Raises InvalidRequest for a repeated one of _SINGLE_VALUED.

    A proxy in front could have checked the first of two values while we use the last.
    """
    for key in _SINGLE_VALUED:
        if len(query.getlist(key)) > 1:
            raise InvalidRequest(f"{key}: is given twice; keep one", details={"field": key})
    return dict(query) | {key: query.getlist(key) for key in _SEVERAL_VALUED if key in query}


def _matches_etag(headers: Headers, etag: str) -> bool:
    """Return whether ``If-None-Match`` has the tag, weak or strong (RFC 9110 §13.1.2)."""
    if "if-none-match" not in headers:
        return False
    values = ",".join(headers.getlist("if-none-match"))
    return values.strip() == "*" or etag in _ENTITY_TAG.findall(values)


ARGUMENTS = ("query", "tag", "limit", "cursor", "filter")
"""The parameters that are arguments of the tool."""


class ReadableQuery(BaseModel):
    """Query of GET /internal/mcp/documents."""

    tenant_id: Annotated[Identifier | None, Field(description="The documents' tenant.")] = None
    user_id: Annotated[
        Identifier | None,
        Field(description=("User. Only documents that this user may read are listed.")),
    ] = None
    roles: Annotated[
        list[str] | None,
        Field(
            max_length=MAX_ROLES,
            description="The user's roles. May be repeated, one role each.",
        ),
    ] = None
    agent: Agent | None = None
    documents: Documents | None = None
    query: Annotated[
        str | None,
        Field(description="Only documents with these words in the title, id or a tag."),
    ] = None
    tag: Annotated[str | None, Field(description="Only documents with this tag.")] = None
    limit: Annotated[
        int | None,
        Field(ge=1, description=("Maximum number of documents: 20 by default, at most 50.")),
    ] = None
    cursor: Annotated[
        str | None,
        Field(description="The `next_cursor` of the previous page.", max_length=MAX_CURSOR_CHARS),
    ] = None
    filter: Annotated[
        str | None, Field(description="The tool's `filter`, as JSON.", max_length=16_384)
    ] = None


class ReadableDocument(AnswerModel):
    """A document that the caller may read."""

    doc_id: str
    title: str
    pages: Annotated[int, Field(description="The number of pages.")]
    tags: list[str]
    language: LanguageField = None
    date: DateField = None
    metadata: MetadataField = None
    updated: Annotated[str, Field(description="Time of the last change to the content, in UTC.")]


class ReadableAnswer(AnswerModel, title="ReadableDocumentList"):
    """Documents that the caller may read, sorted by doc_id."""

    documents: list[ReadableDocument]
    count: Annotated[int, Field(description="Number of documents in this answer.")]
    next_cursor: Annotated[
        str | None, Field(description="The `cursor` of the next page, if there is one.")
    ] = None
    pending: Annotated[
        bool | None, Field(description="True while some documents have not been read yet.")
    ] = None


ReadableOrError = or_error(
    ReadableAnswer, "ReadableDocumentListResponse", "The documents, or an error."
)


def called_list_responses(model: object) -> Responses:
    """Return the responses of a route that lists with a tool call, which is charged."""
    listed = Answer(
        "The list. Errors that the caller can handle are also 200, with status `error`.",
        model,
        (TRACE_HEADER, RETRY_AFTER, RATE_LIMIT_HEADER, POLICY_HEADER),
    )
    return {200: listed, **errors_of(401, 403, 422, 500, 503)}


class ReadableDocumentRoutes(Feature):
    """Lists the caller's documents through the executor, with its checks and budgets."""

    tag = Tag.LISTS

    def __init__(self, callers: CallerResolver, executor: Executor) -> None:
        self._callers = callers
        self._executor = executor

    @operation(
        "GET",
        "/internal/mcp/documents",
        responses=called_list_responses(ReadableOrError),
        headers=CALLER_HEADERS,
    )
    async def list_readable_documents(
        self, parsed: ParsedRequest[None], query: ReadableQuery
    ) -> Response:
        """List documents that the caller may read.

        Returns the result of the tool `list_documents` and is charged like a call to it.
        """
        request = parsed.request
        caller = await self._callers.resolve(request.scope, _asserted(query))
        if caller.tenant_id == NO_TENANT:
            raise InvalidRequest("tenant_id: is missing", details={"field": "tenant_id"})
        call = Call(
            name=LIST_DOCUMENTS,
            arguments=query.model_dump(include=set(ARGUMENTS), exclude_none=True),
            caller=caller,
            trace_id=parsed.trace_id,
            trace_context=trace_context_from(request.headers),
            route=route_of(request.scope),
        )
        outcome = await cancel_on_disconnect(request.receive, self._executor.execute(call))
        response = outcome_response(outcome, call.trace_id)
        if not isinstance(outcome, Ok):
            return response
        headers = {
            name: value
            for name, value in response.headers.items()
            if name not in ("content-length", "content-type")
        }
        return Response(outcome.result_json, 200, headers, JSON)


def _asserted(query: ReadableQuery) -> AssertedIdentity:
    return AssertedIdentity(
        tenant_id=query.tenant_id,
        user_id=query.user_id,
        roles=None if query.roles is None else roles_of(query.roles),
        agent=query.agent,
        documents=None if query.documents is None else frozenset(query.documents),
    )
