"""The POST routes that use a component: run tools, get a prompt, read a resource."""

import asyncio
from collections.abc import Sequence
from functools import partial

from fastapi import Response

from mcp_tools_proxy.api.callers import resolve_user
from mcp_tools_proxy.api.endpoint import EndpointFactory, ParsedRequest, validate
from mcp_tools_proxy.api.models import (
    BatchAnswer,
    BatchRequest,
    ErrorEnvelope,
    ExecuteRequest,
    OkEnvelope,
    PromptRequest,
    RequestContext,
    ResourceRequest,
)
from mcp_tools_proxy.api.openapi import (
    BATCH_EXAMPLES,
    CALLER_HEADERS,
    ERROR_RESPONSES,
    EXECUTE_EXAMPLES,
    PROMPT_EXAMPLES,
    RESOURCE_EXAMPLES,
    Responses,
    request_body,
    security,
)
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.execute import Executor
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.web.disconnect import cancel_on_disconnect
from mcp_tools_proxy.web.envelope import JSON, batch_envelope, outcome_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER, trace_context_from


class ExecuteEndpoints:
    """The endpoints that use components: all go through the executor, so none skips a check."""

    def __init__(
        self,
        endpoints: EndpointFactory,
        callers: CallerResolver,
        executor: Executor,
        lifecycle: Lifecycle,
        *,
        max_batch_calls: int,
        needs_token: bool,
    ) -> None:
        self._endpoints = endpoints
        self._callers = callers
        self._needs_token = needs_token
        self._executor = executor
        self._lifecycle = lifecycle
        self._max_batch_calls = max_batch_calls

    def routes(self) -> Sequence[DirectRoute]:
        """Return the routes with their OpenAPI descriptions."""
        one_envelope: Responses = {200: {"model": OkEnvelope | ErrorEnvelope}, **ERROR_RESPONSES}
        with_body = self._endpoints.with_body
        secured = security(needed=self._needs_token)
        return (
            DirectRoute(
                "/internal/mcp/execute",
                with_body(partial(validate, ExecuteRequest), self._execute),
                name="execute",
                methods=["POST"],
                summary="Run one tool",
                description=(
                    "What the model or its runtime can react to is 200 with status `error`; see "
                    "the README for every code."
                ),
                response_class=Response,
                responses=one_envelope,
                openapi_extra=request_body(ExecuteRequest, EXECUTE_EXAMPLES, *CALLER_HEADERS),
                dependencies=secured,
            ),
            DirectRoute(
                "/internal/mcp/execute/batch",
                with_body(self._check_batch, self._execute_batch),
                name="execute_batch",
                methods=["POST"],
                summary="Run several tools in parallel",
                description=(
                    "Each call is checked and charged on its own; answers are in request order."
                ),
                response_class=Response,
                responses={200: {"model": BatchAnswer}, **ERROR_RESPONSES},
                openapi_extra=request_body(BatchRequest, BATCH_EXAMPLES, *CALLER_HEADERS),
                dependencies=secured,
            ),
            DirectRoute(
                "/internal/mcp/prompts/get",
                with_body(partial(validate, PromptRequest), self._get_prompt),
                name="get_prompt",
                methods=["POST"],
                summary="Get one prompt",
                description="The result has `messages`, as its server made them.",
                response_class=Response,
                responses=one_envelope,
                openapi_extra=request_body(PromptRequest, PROMPT_EXAMPLES, *CALLER_HEADERS),
                dependencies=secured,
            ),
            DirectRoute(
                "/internal/mcp/resources/read",
                with_body(partial(validate, ResourceRequest), self._read_resource),
                name="read_resource",
                methods=["POST"],
                summary="Read one resource",
                description="The result has `contents`, as its server sent them.",
                response_class=Response,
                responses=one_envelope,
                openapi_extra=request_body(ResourceRequest, RESOURCE_EXAMPLES, *CALLER_HEADERS),
                dependencies=secured,
            ),
        )

    async def _execute(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        body = parsed.body
        caller = await resolve_user(self._callers, parsed)
        return await self._use(parsed, _call(parsed, caller, body.tool_name, body.arguments))

    async def _get_prompt(self, parsed: ParsedRequest[PromptRequest]) -> Response:
        body = parsed.body
        caller = await resolve_user(self._callers, parsed)
        call = _call(parsed, caller, body.name, body.arguments, kind=Kind.PROMPT)
        return await self._use(parsed, call)

    async def _read_resource(self, parsed: ParsedRequest[ResourceRequest]) -> Response:
        caller = await resolve_user(self._callers, parsed)
        call = _call(parsed, caller, parsed.body.uri, None, kind=Kind.RESOURCE)
        return await self._use(parsed, call)

    async def _use(self, parsed: ParsedRequest[RequestContext], call: Call) -> Response:
        work = self._executor.execute(call)
        outcome = await cancel_on_disconnect(parsed.request.receive, work)
        return outcome_response(outcome, call.trace_id)

    async def _execute_batch(self, parsed: ParsedRequest[BatchRequest]) -> Response:
        """Run several calls at the same time; each has its own envelope."""
        caller = await resolve_user(self._callers, parsed)
        self._lifecycle.check_serving()
        body = parsed.body.calls
        calls = [_call(parsed, caller, one.tool_name, one.arguments) for one in body]
        outcomes = await cancel_on_disconnect(parsed.request.receive, self._run_all(calls))
        trace_id = parsed.trace_id
        return Response(
            batch_envelope(outcomes, trace_id), headers={TRACE_HEADER: trace_id}, media_type=JSON
        )

    def _check_batch(self, body: object) -> BatchRequest:
        """Validate a batch, its length before its calls. Raises InvalidRequest."""
        calls = body.get("calls") if isinstance(body, dict) else None
        if isinstance(calls, list):
            _check_calls(calls, self._max_batch_calls)
        return validate(BatchRequest, body)

    async def _run_all(self, calls: Sequence[Call]) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._executor.execute(call)) for call in calls]
        return [task.result() for task in tasks]


def _check_calls(calls: list[object], max_calls: int) -> None:
    """Raise InvalidRequest for a batch that is too long, or whose calls name agents of their own.

    Unknown fields are ignored elsewhere; an agent that is ignored would be a wrong permission.
    """
    if len(calls) > max_calls:
        raise InvalidRequest(
            f"calls: {len(calls)} calls, the limit is {max_calls}", details={"field": "calls"}
        )
    for number, call in enumerate(calls):
        if isinstance(call, dict) and call.get("agent") is not None:
            raise InvalidRequest(
                f"calls.{number}.agent: one agent is for the whole batch; name it beside calls",
                details={"field": f"calls.{number}.agent"},
            )


def _call(
    parsed: ParsedRequest[RequestContext],
    caller: Caller,
    name: str,
    arguments: dict[str, object] | None,
    *,
    kind: Kind = Kind.TOOL,
) -> Call:
    return Call(
        name=name,
        kind=kind,
        arguments=arguments or {},
        caller=caller,
        trace_id=parsed.trace_id,
        trace_context=trace_context_from(parsed.request.headers),
    )
