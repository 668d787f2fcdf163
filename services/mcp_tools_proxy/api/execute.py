"""POST /internal/mcp/execute and …/execute/batch."""

import asyncio
from collections.abc import Sequence

import structlog
from fastapi import Request, Response

from mcp_tools_proxy.api.body import parse_json, read_body
from mcp_tools_proxy.api.describe import ERROR_RESPONSES, request_body
from mcp_tools_proxy.api.direct import DirectRoute
from mcp_tools_proxy.api.disconnect import while_connected
from mcp_tools_proxy.api.envelope import (
    JSON,
    batch_envelope,
    error_response,
    outcome_response,
)
from mcp_tools_proxy.api.examples import BATCH_EXAMPLES, EXECUTE_EXAMPLES
from mcp_tools_proxy.api.models import (
    BatchAnswer,
    BatchRequest,
    CallRequest,
    ErrorEnvelope,
    ExecuteRequest,
    OkEnvelope,
)
from mcp_tools_proxy.api.requests import caller_of, validate
from mcp_tools_proxy.api.trace import TRACE_HEADER, trace_id_from
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, PayloadTooLarge, ProxyError
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.execute import Executor
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.telemetry.metrics import Metrics

log = structlog.get_logger()


class ExecuteEndpoints:
    """The endpoints that run tools: each reads its body, asks the executor and answers."""

    def __init__(
        self,
        executor: Executor,
        lifecycle: Lifecycle,
        metrics: Metrics,
        *,
        max_request_bytes: int,
        max_batch_calls: int,
    ) -> None:
        self._executor = executor
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._max_request_bytes = max_request_bytes
        self._max_batch_calls = max_batch_calls

    def routes(self) -> Sequence[DirectRoute]:
        """Describe and route the endpoints."""
        return (
            DirectRoute(
                "/internal/mcp/execute",
                self.execute,
                methods=["POST"],
                summary="Run one tool",
                description=(
                    "What the model or its runtime can react to is 200 with status `error`; see "
                    "the README for every code."
                ),
                response_class=Response,
                responses={200: {"model": OkEnvelope | ErrorEnvelope}, **ERROR_RESPONSES},
                openapi_extra=request_body(ExecuteRequest, EXECUTE_EXAMPLES),
            ),
            DirectRoute(
                "/internal/mcp/execute/batch",
                self.execute_batch,
                methods=["POST"],
                summary="Run several tools in parallel",
                description=(
                    "Each call is checked and charged on its own; answers are in request order."
                ),
                response_class=Response,
                responses={200: {"model": BatchAnswer}, **ERROR_RESPONSES},
                openapi_extra=request_body(BatchRequest, BATCH_EXAMPLES),
            ),
        )

    async def execute(self, request: Request) -> Response:
        """Run one call."""
        body: object = None
        try:
            body = parse_json(await read_body(request.receive, self._max_request_bytes))
            asked = validate(ExecuteRequest, body)
        except ProxyError as error:
            return self._refuse(error, trace_id_from(body, request.headers))
        trace_id = trace_id_from(body, request.headers)
        call = _call(asked, caller_of(asked), trace_id)
        outcome = await while_connected(request.receive, self._executor.execute(call))
        return outcome_response(outcome, trace_id)

    async def execute_batch(self, request: Request) -> Response:
        """Run several calls at once; each has its own envelope."""
        body: object = None
        try:
            body = parse_json(await read_body(request.receive, self._max_request_bytes))
            self._check_count(body)
            asked = validate(BatchRequest, body)
            self._lifecycle.check_serving()
        except ProxyError as error:
            return self._refuse(error, trace_id_from(body, request.headers))
        trace_id = trace_id_from(body, request.headers)
        caller = caller_of(asked)
        calls = [_call(call, caller, trace_id) for call in asked.calls]
        outcomes = await while_connected(request.receive, self._run_all(calls))
        return Response(
            batch_envelope(outcomes, trace_id), headers={TRACE_HEADER: trace_id}, media_type=JSON
        )

    def _refuse(self, error: ProxyError, trace_id: str) -> Response:
        """Answer a request that never became a call, and tell the operator of it."""
        self._metrics.requests_refused.labels(error.code).inc()
        field = (error.details or {}).get("field")
        log.warning("request.refused", trace_id=trace_id, code=error.code, field=field)
        unread = isinstance(error, PayloadTooLarge)
        return error_response(error, trace_id, {"Connection": "close"} if unread else None)

    def _check_count(self, body: object) -> None:
        """Refuse a batch that is too long before its calls are looked at. Raises InvalidRequest."""
        calls = body.get("calls") if isinstance(body, dict) else None
        if isinstance(calls, list) and len(calls) > self._max_batch_calls:
            raise InvalidRequest(
                f"calls: {len(calls)} calls, the limit is {self._max_batch_calls}",
                details={"field": "calls"},
            )

    async def _run_all(self, calls: Sequence[Call]) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._executor.execute(call)) for call in calls]
        return [task.result() for task in tasks]


def _call(asked: CallRequest, caller: Caller, trace_id: str) -> Call:
    return Call(
        name=asked.tool_name,
        arguments=asked.arguments or {},
        caller=caller,
        trace_id=trace_id,
    )
