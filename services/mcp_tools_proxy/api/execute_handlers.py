"""The handlers that use a component: run tools, get a prompt, read a resource."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import Response

from mcp_tools_proxy.api.callers import resolve_user
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.idempotency_header import idempotency_key_of, key_in_batch
from mcp_tools_proxy.api.models import (
    BatchRequest,
    ExecuteRequest,
    PromptRequest,
    RequestContext,
    ResourceRequest,
)
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.web.disconnect import cancel_on_disconnect
from mcp_tools_proxy.web.envelope import JSON, batch_envelope, outcome_response
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER, trace_context_from

T = TypeVar("T")


class ExecuteHandlers:
    """The handlers that use components: all go through the executor, so none skips a check."""

    def __init__(
        self,
        callers: CallerResolver,
        executor: Executor,
        lifecycle: Lifecycle,
        *,
        max_batch_calls: int,
    ) -> None:
        self._callers = callers
        self._executor = executor
        self._lifecycle = lifecycle
        self._max_batch_calls = max_batch_calls

    async def execute(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        """Run one tool."""
        caller = await resolve_user(self._callers, parsed)
        body = parsed.body
        key = idempotency_key_of(parsed, body.idempotency_key)
        return await self._use(
            parsed, _call(parsed, caller, body.tool_name, body.arguments, idempotency_key=key)
        )

    async def get_prompt(self, parsed: ParsedRequest[PromptRequest]) -> Response:
        """Get one prompt."""
        caller = await resolve_user(self._callers, parsed)
        body = parsed.body
        call = _call(parsed, caller, body.name, body.arguments, kind=Kind.PROMPT)
        return await self._use(parsed, call)

    async def read_resource(self, parsed: ParsedRequest[ResourceRequest]) -> Response:
        """Read one resource."""
        caller = await resolve_user(self._callers, parsed)
        call = _call(parsed, caller, parsed.body.uri, None, kind=Kind.RESOURCE)
        return await self._use(parsed, call)

    async def execute_batch(self, parsed: ParsedRequest[BatchRequest]) -> Response:
        """Run several tools at the same time; each has its own envelope."""
        caller = await resolve_user(self._callers, parsed)
        self._lifecycle.check_serving()
        body, batch_key = parsed.body, idempotency_key_of(parsed, parsed.body.idempotency_key)
        calls = [
            _call(
                parsed,
                caller,
                one.tool_name,
                one.arguments,
                idempotency_key=one.idempotency_key or key_in_batch(batch_key, place),
            )
            for place, one in enumerate(body.calls)
        ]
        outcomes = await _until_disconnect(parsed, self._run_all(calls), calls)
        trace_id = parsed.trace_id
        return Response(
            batch_envelope(outcomes, trace_id), headers={TRACE_HEADER: trace_id}, media_type=JSON
        )

    def check_batch(self, body: object) -> None:
        """Check a batch as a whole before its calls are validated.

        Raises InvalidRequest for a batch that is too long, or whose calls name agents of their own:
        unknown fields are ignored elsewhere, but an agent that is ignored would be a wrong
        permission.
        """
        calls = body.get("calls") if isinstance(body, dict) else None
        if not isinstance(calls, list):
            return
        if len(calls) > self._max_batch_calls:
            raise InvalidRequest(
                f"calls: {len(calls)} calls, the limit is {self._max_batch_calls}",
                details={"field": "calls"},
            )
        for number, call in enumerate(calls):
            if isinstance(call, dict) and call.get("agent") is not None:
                raise InvalidRequest(
                    f"calls.{number}.agent: one agent is for the whole batch; name it beside calls",
                    details={"field": f"calls.{number}.agent"},
                )

    async def _use(self, parsed: ParsedRequest[RequestContext], call: Call) -> Response:
        outcome = await _until_disconnect(parsed, self._executor.execute(call), [call])
        return outcome_response(outcome, call.trace_id)

    async def _run_all(self, calls: Sequence[Call]) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._executor.execute(call)) for call in calls]
        return [task.result() for task in tasks]


def _call(
    parsed: ParsedRequest[RequestContext],
    caller: Caller,
    name: str,
    arguments: dict[str, object] | None,
    *,
    kind: Kind = Kind.TOOL,
    idempotency_key: str | None = None,
) -> Call:
    return Call(
        name=name,
        kind=kind,
        arguments=arguments or {},
        caller=caller,
        trace_id=parsed.trace_id,
        trace_context=trace_context_from(parsed.request.headers),
        idempotency_key=idempotency_key,
    )


async def _until_disconnect(
    parsed: ParsedRequest[RequestContext], work: Coroutine[Any, Any, T], calls: Sequence[Call]
) -> T:
    """Return what ``work`` returns; cancel it when the caller hangs up.

    A call with an idempotency key is carried to its end: its caller comes back for the outcome.
    """
    if any(call.idempotency_key is not None for call in calls):
        return await work
    return await cancel_on_disconnect(parsed.request.receive, work)
