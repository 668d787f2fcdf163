"""Runs a tool to show the outcome to a user.

The call is the user's own, or, for operators with the right ``run``, another user's.
"""

from time import perf_counter
from typing import Annotated

from fastapi import Response
from pydantic import Field
from pydantic_core import from_json

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.identity import AssertedIdentity, OperatorRight
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.explainer import Explainer
from mcp_tools_proxy.http.api.answer_models import ErrorEnvelope, OkEnvelope
from mcp_tools_proxy.http.api.call_routes import (
    EXECUTE_EXAMPLES,
    call_of,
    carry_out,
    idempotency_key_of,
)
from mcp_tools_proxy.http.api.endpoint import ParsedRequest, asserted_by_body, require_user
from mcp_tools_proxy.http.api.explain_routes import ExplainedBudget, budgets_of
from mcp_tools_proxy.http.api.models import ExecuteRequest
from mcp_tools_proxy.http.api.openapi import IDEMPOTENCY_HEADER, TRACED, Tag, call_responses
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.request_refusals import end_operation
from mcp_tools_proxy.http.responses import outcome_response

_Text = Annotated[
    str,
    Field(description="The text for a model that takes only text, as in `messages` of a batch."),
]
_Elapsed = Annotated[
    float, Field(description=("Duration of the call in the gateway, in milliseconds."))
]
_Budgets = Annotated[
    list[ExplainedBudget],
    Field(description="Remaining budgets after the call; empty if the call was refused earlier."),
]


class TryOkEnvelope(OkEnvelope, title="TryOkResponse"):
    """The tool was run."""

    text: _Text
    elapsed_ms: _Elapsed
    budgets: _Budgets


class TryErrorEnvelope(ErrorEnvelope, title="TryErrorResponse"):
    """The call was refused or failed. A refused request has only the error."""

    text: _Text | None = None
    elapsed_ms: _Elapsed | None = None
    budgets: _Budgets | None = None


TryAnswer = Annotated[
    TryOkEnvelope | TryErrorEnvelope,
    Field(
        discriminator="status",
        title="TryResponse",
        description="The outcome of a call, with details for operators.",
    ),
]


class TryRoutes(Feature):
    """Runs tools for the caller in the body.

    If that is not the sender, an operator acts for the caller, and ``StandIn`` of the domain
    withholds the caller's credentials from servers.
    """

    tag = Tag.CALLS

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

    @operation(
        "POST",
        "/internal/mcp/try",
        responses=call_responses(TryAnswer),
        headers=(*TRACED, IDEMPOTENCY_HEADER),
        examples=EXECUTE_EXAMPLES,
        token_for=OperatorRight.RUN,
    )
    async def try_tool(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        """Try a tool call.

        Takes the body of `execute`, with tenant and user, and returns more details of the outcome.
        If the JWT of the request names that user, the call is made as that user, as with `execute`.
        Otherwise the operator calls on behalf of the user, which requires the right `run` for the
        tenant, and also `documents` for tools that read documents. Such a call counts as the
        user's, is charged to the tenant's budgets, and is recorded with the operator's token.
        Servers get no credentials of the user: if a server needs the user's login, secret or
        assertion, the call fails with LOGIN_REQUIRED or CREDENTIALS_MISSING.
        """
        # for tries and replies only
        from mcp_tools_proxy.wire.model_replies.reply import text_of  # noqa: PLC0415

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
            "budgets": budgets_of(explained),
        }
        return outcome_response(outcome, parsed.trace_id, more)

    async def _stand_in(
        self, parsed: ParsedRequest[ExecuteRequest], asserted: AssertedIdentity
    ) -> Caller:
        """Return the caller that an operator acts for; the call's record names the operator."""
        operator = await self._gate.check(parsed, OperatorRight.RUN, tenant_id=asserted.tenant_id)
        require_user(asserted)
        return self._callers.resolve_stand_in(parsed.request.scope, asserted, operator)
