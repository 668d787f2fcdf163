"""The route that lists the documents that a caller may read: a call of the tool list_documents.

The docstrings of the models are part of the OpenAPI document.
"""

from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, Field

from mcp_tools_proxy.api.document_models import LanguageField
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import Agent, Documents
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, or_error
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import CALLER_HEADERS
from mcp_tools_proxy.api.openapi.responses import (
    RETRY_AFTER,
    Answer,
    Responses,
    errors_of,
)
from mcp_tools_proxy.api.route_builder import Feature, operation
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import NO_TENANT, Call
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.identity import AssertedIdentity, roles_of
from mcp_tools_proxy.domain.outcome import Ok
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.tools.list_documents import LIST_DOCUMENTS, MAX_CURSOR_CHARS
from mcp_tools_proxy.web.disconnect import cancel_on_disconnect
from mcp_tools_proxy.web.envelope import JSON, outcome_response
from mcp_tools_proxy.web.rate_limit_headers import POLICY_HEADER, RATE_LIMIT_HEADER
from mcp_tools_proxy.web.request_refusals import route_of
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER, trace_context_from
from mcp_tools_proxy.wire.identifiers import MAX_ROLES, Identifier

ARGUMENTS = ("query", "tag", "limit", "cursor")
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


class ReadableDocument(AnswerModel):
    """A document that the caller may read."""

    doc_id: str
    title: str
    pages: Annotated[int, Field(description="The number of pages.")]
    tags: list[str]
    language: LanguageField = None
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
    """Return the responses of a route that lists by a call of a tool, which is charged."""
    listed = Answer(
        "The list. Errors that the caller can handle are also 200, with status `error`.",
        model,
        (TRACE_HEADER, RETRY_AFTER, RATE_LIMIT_HEADER, POLICY_HEADER),
    )
    return {200: listed, **errors_of(401, 403, 422, 500, 503)}


class ReadableDocumentRoutes(Feature):
    """Lists what the caller may read, by the executor: no check and no budget is left out."""

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
