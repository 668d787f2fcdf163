"""The handler that runs a tool for a person who wants to see how it ends.

It runs in the own name, or, for operators with the right ``run``, as somebody else.
"""

from time import perf_counter

from fastapi import Response
from pydantic_core import from_json

from mcp_tools_proxy.api.audit.explain_handlers import shown_budgets
from mcp_tools_proxy.api.callers import asserted_by_body, require_user
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.execute_handlers import call_of
from mcp_tools_proxy.api.idempotency_header import carry_out, idempotency_key_of
from mcp_tools_proxy.api.models import ExecuteRequest
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.identity import AssertedIdentity, OperatorRight
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.explainer import Explainer
from mcp_tools_proxy.web.envelope import outcome_response
from mcp_tools_proxy.web.request_refusals import end_operation


class TryHandlers:
    """Runs tools for the caller that the body names.

    Where that is not the sender himself, an operator stands in, and no server is given anything of
    that caller: the domain's ``StandIn`` sees to it.
    """

    def __init__(
        self,
        callers: CallerResolver,
        gate: OperatorGate,
        executor: Executor,
        explainer: Explainer,
        *,
        max_text_bytes: int,
    ) -> None:
        self._callers = callers
        self._gate = gate
        self._executor = executor
        self._explainer = explainer
        self._max_text_bytes = max_text_bytes

    async def try_tool(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        """Run one tool, and add what people want to see of it."""
        # used with tries and replies only
        from mcp_tools_proxy.model_replies.reply import text_of  # noqa: PLC0415

        body = parsed.body
        asserted = asserted_by_body(body)
        caller = await self._callers.resolve_own(parsed.request.scope, asserted)
        if caller is None:
            caller = await self._stand_in(parsed, asserted)
        key = idempotency_key_of(parsed, body.idempotency_key)
        call = call_of(parsed, caller, body.tool_name, body.arguments, idempotency_key=key)
        end_operation(parsed.request.scope)
        started = perf_counter()
        outcome = await carry_out(parsed, self._executor.execute(call), [call])
        elapsed_ms = (perf_counter() - started) * 1000
        explained = await self._explainer.explain(call)
        more = {
            "text": from_json(text_of(outcome, max_text_bytes=self._max_text_bytes)),
            "elapsed_ms": round(elapsed_ms, 3),
            "budgets": shown_budgets(explained),
        }
        return outcome_response(outcome, parsed.trace_id, more)

    async def _stand_in(
        self, parsed: ParsedRequest[ExecuteRequest], asserted: AssertedIdentity
    ) -> Caller:
        """Return whom an operator stands in for; the record of the call names the operator."""
        operator = await self._gate.check(parsed, OperatorRight.RUN, tenant_id=asserted.tenant_id)
        require_user(asserted)
        return self._callers.resolve_stand_in(parsed.request.scope, asserted, operator)
