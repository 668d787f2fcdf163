"""The routes of the audit (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.audit.audit_handlers import AuditHandlers
from mcp_tools_proxy.api.audit.audit_models import (
    AuditAnswer,
    AuditQuery,
    ExplainAnswer,
    RecordQuery,
)
from mcp_tools_proxy.api.audit.explain_handlers import ExplainHandlers
from mcp_tools_proxy.api.audit.stream_handlers import StreamHandlers
from mcp_tools_proxy.api.models import ExecuteRequest
from mcp_tools_proxy.api.openapi.examples import EXECUTE_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import (
    STREAM_RESPONSES,
    audit_responses,
    explain_responses,
)
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.web.fast_routes import DirectRoute


def audit_routes(
    build: RouteBuilder, audit: AuditHandlers, explain: ExplainHandlers, streams: StreamHandlers
) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``audit``, see ``check_explain``."""
    return (
        build.get(
            "/internal/mcp/audit",
            audit.list_records,
            operation_id="list_audit_records",
            tag=Tag.AUDIT,
            summary="List the records of attempts",
            description=(
                "The newest first. Of the audit file, or without one the newest 1,000 of this "
                "replica. Needs the right `audit`."
            ),
            query=AuditQuery,
            responses=audit_responses(AuditAnswer, "The records."),
            headers=TRACED,
            needs_token=True,
        ),
        build.get(
            "/internal/mcp/calls/stream",
            streams.stream,
            operation_id="stream_audit_records",
            tag=Tag.AUDIT,
            summary="Watch the records of attempts as they come",
            description=(
                "Server-sent events of this replica, from now on: `record` has a record as the "
                "audit shows it, but for `seq` and `mac`, which it gets when it is written; `lost` "
                "has how many `records` a slow reader has lost in that place; `end` has as "
                "`reason` the code by which the stream ends, as UNAUTHENTICATED or SHUTTING_DOWN. "
                "At most 16 streams are open at once. The right is checked again and again. "
                "Needs the right `audit`."
            ),
            query=RecordQuery,
            responses=STREAM_RESPONSES,
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "POST",
            "/internal/mcp/explain",
            explain.explain,
            ExecuteRequest,
            operation_id="explain_call",
            tag=Tag.AUDIT,
            examples=EXECUTE_EXAMPLES,
            summary="Explain what would happen to a call",
            description=(
                "The body is that of `execute`. Nothing runs, and nothing is charged: each check "
                "with its verdict, the rule that decides and where it stands, what would be sent "
                "where, and what is left of the budgets. A missing login is foreseen; no issuer is "
                "asked, and no sign-in begins. Needs the right `audit`; where switching presets "
                "needs no token, neither does this."
            ),
            responses=explain_responses(ExplainAnswer, "What would happen."),
            headers=TRACED,
            needs_token=explain.needs_token,
            before_body=explain.check_sender,
        ),
    )
