"""Explains to operators how a call would be handled."""

from typing import Annotated

from fastapi import Request
from pydantic import Field

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.explainer import Explainer, Explanation
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.call_routes import EXECUTE_EXAMPLES, run_of
from mcp_tools_proxy.http.api.endpoint import ParsedRequest, asserted_by_body, require_user
from mcp_tools_proxy.http.api.models import ExecuteRequest
from mcp_tools_proxy.http.api.openapi import (
    Answer,
    Tag,
    errors_of,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation


class RulePlace(AnswerModel):
    """Location of a rule: a file and a JSON path or policy in it, or the variable of a setting."""

    file: str
    path: str


class ExplainedCheck(AnswerModel):
    """A check of a call; `verdict`: `pass`, `not_reached`, `not_checked`, or an error code."""

    check: str
    verdict: str
    message: Annotated[str | None, Field(description="Message to the caller.")] = None
    reason: Annotated[str | None, Field(description="Reason shown only to operators.")] = None
    rule: RulePlace | None = None


class SentCall(AnswerModel):
    """Target and argument names of the call that would be sent, without values."""

    to: Annotated[str, Field(description="`server`, `documents` or `retrieval`.")]
    server_id: str | None = None
    transport: str | None = None
    name: str | None = None
    arguments: list[str]


class ExplainedBudget(AnswerModel):
    """A budget of the call, and its remainder."""

    name: str
    unit: str
    limit: int
    remaining: int
    reset_s: int
    window_s: int
    rule: RulePlace


class ExplainAnswer(AnswerModel, title="Explanation"):
    """How a call would be handled."""

    decision: Annotated[
        str,
        Field(
            description="`pass`, the error code of the call, or `not_checked` if only the call "
            "itself can show it."
        ),
    ]
    check: Annotated[str | None, Field(description="The deciding check.")] = None
    rule: RulePlace | None = None
    checks: Annotated[
        list[ExplainedCheck],
        Field(description=("Checks in the order in which a call passes them.")),
    ]
    sends: SentCall | None = None
    budgets: list[ExplainedBudget]
    preset: str | None = None
    generation: int
    trace_id: str


EXPLAIN_RESPONSES = {
    200: Answer("The explanation.", ExplainAnswer),
    **errors_of(401, 403, 413, 422, 500),
}


class ExplainRoutes(Feature):
    """Explains calls of any user; the operator acts for the caller in the body."""

    tag = Tag.AUDIT

    def __init__(self, explainer: Explainer, gate: OperatorGate, callers: CallerResolver) -> None:
        self._explainer = explainer
        self._gate = gate
        self._callers = callers

    def _needs_token(self) -> bool:
        return self._gate.needs_token(OperatorRight.PRESETS)

    async def _check_sender(self, request: Request) -> None:
        await self._gate.before_explain(request)

    @operation(
        "POST",
        "/internal/mcp/explain",
        responses=EXPLAIN_RESPONSES,
        examples=EXECUTE_EXAMPLES,
        needs_token=_needs_token,
        before_body=_check_sender,
    )
    async def explain_call(self, parsed: ParsedRequest[ExecuteRequest]) -> ExplainAnswer:
        """Explain how a call would be handled.

        Takes the body of `execute`. Nothing is run or charged. The answer lists each check with its
        verdict, the deciding rule and its location, the call that would be sent and its target, and
        the remaining budgets. Missing logins are reported, but no issuer is contacted, no sign-in
        is started and no session is opened. Requires the operator right `audit`, unless presets can
        be switched without a token.
        """
        body = parsed.body
        asserted = asserted_by_body(body)
        await self._gate.check_explain(parsed, tenant_id=asserted.tenant_id)
        require_user(asserted)
        call = Call(
            name=body.tool_name,
            arguments=body.arguments or {},
            caller=self._callers.resolve_trusted(asserted),
            trace_id=parsed.trace_id,
            idempotency_key=body.idempotency_key,
            run=run_of(parsed),
        )
        return _answer(await self._explainer.explain(call), parsed.trace_id)


def _answer(explanation: Explanation, trace_id: str) -> ExplainAnswer:
    decisive, version = explanation.refusal or explanation.undecided, explanation.registry
    return ExplainAnswer.model_validate(
        {
            "decision": explanation.decision,
            "check": decisive and decisive.check,
            "rule": decisive and decisive.rule,
            "checks": explanation.checks,
            "sends": explanation.sends,
            "budgets": budgets_of(explanation),
            "preset": version.preset_id,
            "generation": version.generation,
            "trace_id": trace_id,
        }
    )


def budgets_of(explanation: Explanation) -> list[ExplainedBudget]:
    """Return the remainder and the rule of each budget that a call is charged to."""
    return [
        ExplainedBudget.model_validate({**it.as_json, "rule": it.budget.source})
        for it in explanation.budgets
    ]
