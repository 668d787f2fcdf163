"""POST /internal/mcp/execute and …/execute/batch."""

import asyncio

from fastapi import APIRouter, Request, Response

from mcp_tools_proxy.api.describe import ERROR_RESPONSES, request_body
from mcp_tools_proxy.api.disconnect import while_connected
from mcp_tools_proxy.api.envelope import (
    envelope,
    error_response,
    json_response,
    outcome_response,
)
from mcp_tools_proxy.api.models import BatchIn, BatchOut, ErrorEnvelope, ExecuteIn, OkEnvelope
from mcp_tools_proxy.api.requests import Incoming, call_of, caller_of, validate
from mcp_tools_proxy.api.trace import TRACE_HEADER, trace_id_from
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.execute import Executor
from mcp_tools_proxy.gateway.lifecycle import Lifecycle


def execute_routes(
    executor: Executor, lifecycle: Lifecycle, *, max_request_bytes: int, max_batch_calls: int
) -> APIRouter:
    """Build the routes that run tools."""
    router = APIRouter()

    async def run(calls: list[Call]) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(executor.execute(call)) for call in calls]
        return [task.result() for task in tasks]

    @router.post(
        "/internal/mcp/execute",
        summary="Run one tool",
        description=(
            "What the model or its runtime can react to is 200 with status `error`; see the "
            "README for every code."
        ),
        response_class=Response,
        responses={200: {"model": OkEnvelope | ErrorEnvelope}, **ERROR_RESPONSES},
        openapi_extra=request_body(ExecuteIn),
    )
    async def execute(request: Request) -> Response:
        incoming = Incoming(trace_id_from(None, request.headers))
        try:
            await incoming.read(request, max_request_bytes)
            asked = validate(ExecuteIn, incoming.body)
        except ProxyError as error:
            return error_response(error, incoming.trace_id)
        call = call_of(asked, caller_of(asked), incoming.trace_id)
        outcome = await while_connected(request.receive, executor.execute(call))
        return outcome_response(outcome, incoming.trace_id)

    @router.post(
        "/internal/mcp/execute/batch",
        summary="Run several tools in parallel",
        description="Each call is checked and charged on its own; answers are in request order.",
        response_class=Response,
        responses={200: {"model": BatchOut}, **ERROR_RESPONSES},
        openapi_extra=request_body(BatchIn),
    )
    async def execute_batch(request: Request) -> Response:
        incoming = Incoming(trace_id_from(None, request.headers))
        try:
            await incoming.read(request, max_request_bytes)
            asked = validate(BatchIn, incoming.body)
            if len(asked.calls) > max_batch_calls:
                raise InvalidRequest(
                    f"calls: {len(asked.calls)} calls, the limit is {max_batch_calls}",
                    details={"field": "calls"},
                )
            lifecycle.check_serving()
        except ProxyError as error:
            return error_response(error, incoming.trace_id)
        caller, trace_id = caller_of(asked), incoming.trace_id
        calls = [call_of(call, caller, trace_id) for call in asked.calls]
        outcomes = await while_connected(request.receive, run(calls))
        return json_response(
            {
                "results": [envelope(outcome, trace_id) for outcome in outcomes],
                "trace_id": trace_id,
            },
            headers={TRACE_HEADER: trace_id},
        )

    return router
