"""The handler of a batch: plain calls, or those of a model's reply as its API sent them."""

import asyncio
from collections.abc import Sequence
from functools import partial

from fastapi import Response

from mcp_tools_proxy.api.batch.batch_models import ReplyRequest
from mcp_tools_proxy.api.callers import resolve_user
from mcp_tools_proxy.api.endpoint import ParsedRequest, validate
from mcp_tools_proxy.api.idempotency_header import carry_out, idempotency_key_of, key_in_batch
from mcp_tools_proxy.api.models import BatchRequest, RequestContext
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.errors import InvalidArguments, InvalidRequest
from mcp_tools_proxy.domain.outcome import Outcome
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.telemetry.request_events import RequestFacts, RequestTelemetry
from mcp_tools_proxy.web.body import PACED_BYTES
from mcp_tools_proxy.web.envelope import JSON, batch_envelope, reply_response
from mcp_tools_proxy.web.request_refusals import route_of
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER, trace_context_from


class BatchHandlers:
    """Runs several tools at the same time: all go through the executor, so none skips a check."""

    def __init__(
        self,
        callers: CallerResolver,
        executor: Executor,
        lifecycle: Lifecycle,
        *,
        max_batch_calls: int,
        max_json_items: int,
        max_text_bytes: int,
        telemetry: RequestTelemetry,
    ) -> None:
        self._callers = callers
        self._executor = executor
        self._lifecycle = lifecycle
        self._max_batch_calls = max_batch_calls
        self._max_json_items = max_json_items
        self._max_text_bytes = max_text_bytes
        self._telemetry = telemetry

    def read_batch(self, body: object) -> BatchRequest | ReplyRequest:
        """Validate the body of a batch as its calls need it. Raises InvalidRequest."""
        calls = body.get("calls") if isinstance(body, dict) else None
        if isinstance(calls, list):
            if _is_model_reply(calls):
                return validate(ReplyRequest, body)
            self._check_calls(calls)
        return validate(BatchRequest, body)

    async def execute_batch(self, parsed: ParsedRequest[BatchRequest | ReplyRequest]) -> Response:
        """Run several tools at the same time; each has its own envelope."""
        if isinstance(parsed.body, ReplyRequest):
            return await self._execute_reply(parsed, parsed.body)
        caller = await resolve_user(self._callers, parsed)
        self._lifecycle.check_serving()
        new_call = _call_builder(parsed, caller)
        of_batch = idempotency_key_of(parsed, parsed.body.idempotency_key)
        calls = [
            new_call(
                name=one.tool_name,
                arguments=one.arguments or {},
                idempotency_key=one.idempotency_key or key_in_batch(of_batch, place),
            )
            for place, one in enumerate(parsed.body.calls)
        ]
        outcomes = await self._run_all(parsed, caller, calls)
        trace_id = parsed.trace_id
        return Response(
            batch_envelope(outcomes, trace_id), headers={TRACE_HEADER: trace_id}, media_type=JSON
        )

    async def _execute_reply(
        self, parsed: ParsedRequest[BatchRequest | ReplyRequest], body: ReplyRequest
    ) -> Response:
        """Run the calls of a model's reply, and build the messages that follow it."""
        # used with replies only
        from mcp_tools_proxy.model_replies.reply import answer_of, read_reply  # noqa: PLC0415

        reply = read_reply(
            body.calls, max_calls=self._max_batch_calls, max_items=self._max_json_items
        )
        if parsed.body_bytes > PACED_BYTES:
            await asyncio.sleep(0)  # to parse the texts took up to 40 ms, as a body does
        caller = await resolve_user(self._callers, parsed)
        self._lifecycle.check_serving()
        new_call = _call_builder(parsed, caller)
        of_batch = idempotency_key_of(parsed, body.idempotency_key)
        keys = [
            one.idempotency_key or key_in_batch(of_batch, place)
            for place, one in enumerate(reply.run_here)
        ]
        calls = [
            new_call(name=one.name, arguments={}, refusal=arguments)
            if isinstance(arguments, InvalidArguments)
            else new_call(
                name=one.name, arguments=arguments, refusal=one.refusal, idempotency_key=key
            )
            for one, arguments, key in zip(reply.run_here, reply.arguments, keys, strict=True)
        ]
        outcomes = await self._run_all(parsed, caller, calls)
        answer = answer_of(
            reply,
            outcomes,
            in_full=body.results == "full",
            max_text_bytes=self._max_text_bytes,
        )
        return reply_response(answer.outcomes, parsed.trace_id, answer.messages)

    def _check_calls(self, calls: Sequence[object]) -> None:
        """Check plain calls as a whole before each is validated.

        Raises InvalidRequest for a batch that is too long, or whose calls name agents of their own:
        unknown fields are ignored elsewhere, but an agent that is ignored would be a wrong
        permission.
        """
        if len(calls) > self._max_batch_calls:
            raise InvalidRequest(
                f"calls: {len(calls)} calls were sent, the limit is {self._max_batch_calls}; send "
                "fewer at a time",
                details={"field": "calls"},
            )
        for number, call in enumerate(calls):
            if isinstance(call, dict) and call.get("agent") is not None:
                raise InvalidRequest(
                    f"calls.{number}.agent: a call cannot have its own agent; set one for the "
                    "whole batch, beside calls",
                    details={"field": f"calls.{number}.agent"},
                )

    async def _run_all(
        self, parsed: ParsedRequest[RequestContext], caller: Caller, calls: Sequence[Call]
    ) -> Sequence[Outcome]:
        request = RequestFacts(route_of(parsed.request.scope), parsed.trace_id)
        self._telemetry.batch(caller, request, calls=len(calls), request_bytes=parsed.body_bytes)
        return await carry_out(parsed, self._outcomes_of(calls), calls)

    async def _outcomes_of(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._executor.execute(call)) for call in calls]
        return [task.result() for task in tasks]


def _is_model_reply(calls: Sequence[object]) -> bool:
    """Return whether these are items of a model's API; most batches have plain calls."""
    if not calls or (isinstance(calls[0], dict) and "tool_name" in calls[0]):
        return False
    # used with replies only
    from mcp_tools_proxy.model_replies.reply import shape_of  # noqa: PLC0415

    return shape_of(calls) is not None


def _call_builder(parsed: ParsedRequest[RequestContext], caller: Caller) -> partial[Call]:
    """Return what builds a call of this request from its name and arguments."""
    return partial(
        Call,
        caller=caller,
        sources=parsed.body.sources,
        trace_id=parsed.trace_id,
        trace_context=trace_context_from(parsed.request.headers),
        route=route_of(parsed.request.scope),
    )
