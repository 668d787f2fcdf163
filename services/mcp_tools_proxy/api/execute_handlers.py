"""The handlers that use a component: run a tool, get a prompt, read a resource."""

from fastapi import Response

from mcp_tools_proxy.api.callers import resolve_user
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.idempotency_header import carry_out, idempotency_key_of
from mcp_tools_proxy.api.models import (
    ExecuteRequest,
    PromptRequest,
    RequestContext,
    ResourceRequest,
)
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.web.envelope import outcome_response
from mcp_tools_proxy.web.request_refusals import route_of
from mcp_tools_proxy.web.trace_headers import trace_context_from


class ExecuteHandlers:
    """The handlers that use components: all go through the executor, so none skips a check."""

    def __init__(self, callers: CallerResolver, executor: Executor) -> None:
        self._callers = callers
        self._executor = executor

    async def execute(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        """Run one tool."""
        caller = await resolve_user(self._callers, parsed)
        body = parsed.body
        key = idempotency_key_of(parsed, body.idempotency_key)
        return await self._use(
            parsed, call_of(parsed, caller, body.tool_name, body.arguments, idempotency_key=key)
        )

    async def get_prompt(self, parsed: ParsedRequest[PromptRequest]) -> Response:
        """Get one prompt."""
        caller = await resolve_user(self._callers, parsed)
        body = parsed.body
        call = call_of(parsed, caller, body.name, body.arguments, kind=Kind.PROMPT)
        return await self._use(parsed, call)

    async def read_resource(self, parsed: ParsedRequest[ResourceRequest]) -> Response:
        """Read one resource."""
        caller = await resolve_user(self._callers, parsed)
        call = call_of(parsed, caller, parsed.body.uri, None, kind=Kind.RESOURCE)
        return await self._use(parsed, call)

    async def _use(self, parsed: ParsedRequest[RequestContext], call: Call) -> Response:
        outcome = await carry_out(parsed, self._executor.execute(call), [call])
        return outcome_response(outcome, call.trace_id)


def call_of(
    parsed: ParsedRequest[RequestContext],
    caller: Caller,
    name: str,
    arguments: dict[str, object] | None,
    *,
    kind: Kind = Kind.TOOL,
    idempotency_key: str | None = None,
) -> Call:
    """Return the call that a request makes for a caller."""
    return Call(
        name=name,
        kind=kind,
        arguments=arguments or {},
        caller=caller,
        sources=parsed.body.sources,
        trace_id=parsed.trace_id,
        trace_context=trace_context_from(parsed.request.headers),
        idempotency_key=idempotency_key,
        route=route_of(parsed.request.scope),
    )
