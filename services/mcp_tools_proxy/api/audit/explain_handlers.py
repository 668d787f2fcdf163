"""The handler that explains a call to operators with the right ``audit``."""

from fastapi import Request, Response

from mcp_tools_proxy.api.callers import asserted_by_body, require_user
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import ExecuteRequest
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.explainer import CheckVerdict, Explainer, Explanation
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


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
