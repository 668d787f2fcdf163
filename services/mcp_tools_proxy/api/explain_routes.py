"""Explains to operators how a call would be handled.

The docstrings of models are part of the OpenAPI document: callers read them.
"""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from mcp_tools_proxy.api.callers import asserted_by_body, require_user
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import ExecuteRequest
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.api.openapi.examples import EXECUTE_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import (
    explain_responses,
)
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.explainer import CheckVerdict, Explainer, Explanation
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class RulePlace(AnswerModel):
    """Location of a rule: a file and a JSON path in it, or the variable of a setting."""

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
    """Target and names of what would be sent, without values."""

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


class ExplainHandlers:
    """Explains calls of any user: the operator stands in for the caller that the body names."""

    def __init__(self, explainer: Explainer, gate: OperatorGate, callers: CallerResolver) -> None:
        self._explainer = explainer
        self._gate = gate
        self._callers = callers

    @property
    def needs_token(self) -> bool:
        """Whether nobody has a call explained without a token."""
        return self._gate.needs_token(OperatorRight.PRESETS)

    async def check_sender(self, request: Request) -> None:
        """Check the sender before the body is read. Raises as ``explain``."""
        await self._gate.before_explain(request)

    async def explain(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        """Show what would happen to the call that the body describes."""
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
        )
        explanation = await self._explainer.explain(call)
        return json_response(
            {**_shown(explanation), "trace_id": parsed.trace_id},
            headers={TRACE_HEADER: parsed.trace_id},
        )


def shown_budgets(explanation: Explanation) -> list[dict[str, object]]:
    """Return what is left of each budget that a call is charged to, and where its rule stands."""
    return [{**it.as_json, "rule": it.budget.source.as_json} for it in explanation.budgets]


def _shown(explanation: Explanation) -> dict[str, object]:
    refusal = explanation.refusal or explanation.undecided
    shown: dict[str, object] = {"decision": explanation.decision}
    if refusal is not None:
        shown["check"] = refusal.check
        if refusal.rule is not None:
            shown["rule"] = refusal.rule.as_json
    shown["checks"] = [_verdict(it) for it in explanation.checks]
    if explanation.sends is not None:
        shown["sends"] = without_none(explanation.sends)
    shown["budgets"] = shown_budgets(explanation)
    version = explanation.registry
    shown["preset"], shown["generation"] = version.preset_id, version.generation
    return without_none(shown)


def _verdict(verdict: CheckVerdict) -> dict[str, object]:
    return without_none(
        {
            "check": verdict.check,
            "verdict": verdict.verdict,
            "message": verdict.message,
            "reason": verdict.reason,
            "rule": None if verdict.rule is None else verdict.rule.as_json,
        }
    )


def explain_route(build: RouteBuilder, explain: ExplainHandlers) -> DirectRoute:
    """Build the route; see ``check_explain`` for the right that it needs."""
    return build.with_body(
        "POST",
        "/internal/mcp/explain",
        explain.explain,
        ExecuteRequest,
        operation_id="explain_call",
        tag=Tag.AUDIT,
        examples=EXECUTE_EXAMPLES,
        summary="Explain how a call would be handled",
        description=(
            "Takes the body of `execute`. Nothing is run or charged. The answer lists each "
            "check with its verdict, the deciding rule and its location, what would be sent "
            "to which target, and the remaining budgets. Missing logins are reported, but no "
            "issuer is contacted and no sign-in is started. Requires the operator right "
            "`audit`, unless presets can be switched without a token."
        ),
        responses=explain_responses(ExplainAnswer, "The explanation."),
        headers=TRACED,
        needs_token=explain.needs_token,
        before_body=explain.check_sender,
    )
